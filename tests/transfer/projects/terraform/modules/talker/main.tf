variable "name" { type = string }
variable "model" { type = string }
variable "instruction" { type = string }
variable "code" { type = string }
variable "role" { type = string }

resource "aws_bedrockagent_agent" "this" {
  agent_name              = var.name
  agent_resource_role_arn = var.role
  foundation_model        = var.model
  instruction             = var.instruction
}

resource "aws_bedrockagent_agent_alias" "live" {
  agent_alias_name = "live"
  agent_id         = aws_bedrockagent_agent.this.agent_id
}

data "archive_file" "code" {
  type        = "zip"
  source_file = var.code
  output_path = "${path.root}/build/${var.name}.zip"
}

resource "aws_lambda_function" "this" {
  function_name = var.name
  role          = var.role
  filename      = data.archive_file.code.output_path
  handler       = "tides.answer"
  runtime       = "python3.12"
}

resource "aws_bedrockagent_agent_action_group" "own" {
  agent_id          = aws_bedrockagent_agent.this.agent_id
  agent_version     = "DRAFT"
  action_group_name = "water"
  action_group_executor { lambda = aws_lambda_function.this.arn }
  function_schema {
    member_functions {
      functions {
        name        = "high_water"
        description = "When the water is high."
        parameters {
          map_block_key = "pier"
          type          = "string"
          description   = "The pier."
          required      = true
        }
      }
    }
  }
}

output "alias_arn" { value = aws_bedrockagent_agent_alias.live.agent_alias_arn }
