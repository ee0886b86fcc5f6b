"""Semantic Kernel's prompts: `<message>` tags on top of three template engines."""
