"""Other loops than the built-in one: PPE scripts, the workflow language, custom orchestration.

A script is read whole before anything runs (`ppe/`, `pl/`), into a program that yields what it
wants done, step by step (`steps.py`). `orchestration.py` has each step done by the effects of an
agent's turn, so that scripts have its journal, limits, trace, streaming and resuming. `custom/`
does the same for a Lambda function and for a generator function in Python. `Flow`, which runs a
script by itself, is in `orchestrator.agent`.

`node_graph/` runs Bedrock's own flows, which are graphs of nodes and no scripts: the server invokes
them.
"""
