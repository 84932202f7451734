"""Documents made from the contract: OpenAPI, the API reference, the agent prompt and skill, llms.txt.

Nothing here knows of a running server: the endpoint table, the models, their docstrings and the templates beside
this file are all there is to read. `build` names every document.
"""
