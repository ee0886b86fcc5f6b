"""What runs in the sandbox's process, before and around the code.

The process is a Python of its own that knows nothing of this package: these modules use the
standard library only, and import each other by relative names, so that they can be loaded with
nothing else on `sys.path`.
"""
