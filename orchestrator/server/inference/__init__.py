"""The operations of `bedrock-runtime`: models, for tools that speak to Bedrock's."""
