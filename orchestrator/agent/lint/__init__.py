"""What is wrong or doubtful in an agent's folder, a script or a template: `orchestrator lint`."""

from orchestrator.agent.lint.folder import lint_agent
from orchestrator.agent.lint.scripts import lint_script, lint_template_file

__all__ = ["lint_agent", "lint_script", "lint_template_file"]
