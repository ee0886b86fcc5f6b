"""The journal as callers see it: Bedrock's trace parts, events of a stream, replies, past turns."""
