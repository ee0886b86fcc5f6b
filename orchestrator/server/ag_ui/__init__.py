"""AG-UI: agents for the user interfaces that speak this protocol, such as CopilotKit's."""
