"""Parsers of one's own: a function or a Lambda that follows Bedrock's parser contract."""
