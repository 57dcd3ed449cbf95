"""The tools for a model, by the Model Context Protocol."""
