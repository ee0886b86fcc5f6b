"""The workbench: pages on which people look at agents, their turns and every prompt's origin."""
