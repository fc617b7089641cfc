"""channelmem for agents that speak the Model Context Protocol: tools and resources over Memory, within bounds."""
