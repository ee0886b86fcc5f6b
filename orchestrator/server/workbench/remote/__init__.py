"""Agents of a remote server in the workbench, asked through Bedrock's API alone."""
