"""Agents in CloudFormation's templates, also those of SAM and the CDK."""
