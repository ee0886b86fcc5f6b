"""Prompty templates (`*.prompty`): front matter, and a body whose lines `role:` begin messages.

There are two dialects, and never a mix of them. `v2` (the default) is that of the specification:
the roles system, user, assistant and developer, and media that are inputs. `legacy` is that of the
older Prompt Section: also tool, function, tools and thread, calls as YAML, and media in the text. A
file says which it is with `template.parser.options.dialect`; an option of the call wins.

Upstream guards its marks with a nonce. Here a mark counts where the author wrote it and nowhere
else: no nonce is needed, attributes survive, and a value is always text.
"""
