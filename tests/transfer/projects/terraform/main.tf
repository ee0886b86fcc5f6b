# Agents of a harbour town.
terraform {
  required_version = ">= 1.6"
  required_providers {
    aws = { source = "hashicorp/aws", version = "~> 6.0" }
  }
}

variable "stage" {
  type    = string
  default = "test"
}

variable "model" {
  type        = string
  description = "The model of all agents."
  default     = "anthropic.claude-3-5-sonnet-20240620-v1:0"
}

locals {
  prefix = "town-${var.stage}"
  beds = {
    bed     = "Which bed, by its letter."
    minutes = "How long, in minutes."
  }
  # What the model sees of a conversation.
  messages = [
    { role = "user", content = [{ text = "$question$" }] },
    { role = "assistant", content = [{ text = "$agent_scratchpad$" }] },
  ]
}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["bedrock.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "agents" {
  name               = "${local.prefix}-agents"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_bedrockagent_agent" "library" {
  agent_name                  = "library"
  agent_resource_role_arn     = aws_iam_role.agents.arn
  foundation_model            = var.model
  idle_session_ttl_in_seconds = 900
  instruction                 = trimspace(file("${path.module}/prompts/library.txt"))
}

data "archive_file" "loans" {
  type        = "zip"
  source_dir  = "${path.module}/functions/loans"
  output_path = "${path.module}/build/loans.zip"
}

resource "aws_lambda_function" "loans" {
  function_name    = "${local.prefix}-loans"
  role             = aws_iam_role.agents.arn
  filename         = data.archive_file.loans.output_path
  source_code_hash = data.archive_file.loans.output_base64sha256
  handler          = "app.lambda_handler"
  runtime          = "python3.12"
  environment {
    variables = { LOAN_DAYS = 21 }
  }
}

resource "aws_bedrockagent_agent_action_group" "loans" {
  agent_id          = aws_bedrockagent_agent.library.agent_id
  agent_version     = "DRAFT"
  action_group_name = "loans"
  action_group_executor {
    lambda = aws_lambda_function.loans.arn
  }
  api_schema {
    payload = file("${path.module}/schemas/loans.yaml")
  }
}

resource "aws_bedrock_guardrail" "polite" {
  name                      = "polite"
  blocked_input_messaging   = "Let us talk about the garden."
  blocked_outputs_messaging = "Let us talk about the garden."
  word_policy_config {
    words_config {
      text = "weedkiller"
    }
  }
}

resource "aws_bedrockagent_agent" "garden" {
  agent_name              = "garden"
  agent_resource_role_arn = aws_iam_role.agents.arn
  foundation_model        = var.model
  instruction             = <<-EOT
    You look after the town's garden.
      You say "please", and you never water at $${noon}.
  EOT
  guardrail_configuration {
    guardrail_identifier = aws_bedrock_guardrail.polite.guardrail_id
    guardrail_version    = aws_bedrock_guardrail.polite.version
  }
  prompt_override_configuration {
    prompt_configurations {
      prompt_type          = "ORCHESTRATION"
      prompt_creation_mode = "OVERRIDDEN"
      prompt_state         = "ENABLED"
      base_prompt_template = jsonencode({ system = "$instruction$", messages = local.messages })
      inference_configuration {
        max_length     = 512
        temperature    = 0
        top_k          = 250
        top_p          = 1
        stop_sequences = ["</answer>"]
      }
    }
  }
}

resource "aws_bedrockagent_agent_action_group" "watering" {
  agent_id          = aws_bedrockagent_agent.garden.agent_id
  agent_version     = "DRAFT"
  action_group_name = "watering"
  action_group_executor {
    custom_control = "RETURN_CONTROL"
  }
  function_schema {
    member_functions {
      functions {
        name        = "water_bed"
        description = "Waters one bed."
        dynamic "parameters" {
          for_each = local.beds
          content {
            map_block_key = parameters.key
            type          = parameters.key == "minutes" ? "integer" : "string"
            description   = parameters.value
            required      = true
          }
        }
      }
    }
  }
}

module "tides" {
  source      = "./modules/talker"
  name        = "tides"
  model       = var.model
  instruction = "You know when the water is high, at every pier of the town."
  code        = "${path.module}/functions/tides.py"
  role        = aws_iam_role.agents.arn
}

resource "aws_bedrockagent_agent" "ferry" {
  agent_name              = "ferry"
  agent_resource_role_arn = aws_iam_role.agents.arn
  foundation_model        = var.model
  agent_collaboration     = "SUPERVISOR"
  instruction             = "You tell passengers when the ferry goes, which depends on the tide."
}

resource "aws_bedrockagent_agent_collaborator" "tides" {
  agent_id                   = aws_bedrockagent_agent.ferry.agent_id
  collaborator_name          = "tides"
  collaboration_instruction  = "Ask it when the water is high."
  relay_conversation_history = "TO_COLLABORATOR"
  agent_descriptor {
    alias_arn = module.tides.alias_arn
  }
}
