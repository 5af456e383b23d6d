"""The code generator: facts about Kafka's protocol in, hightide's message classes out. Run by `make codegen`.

`schema` reads the facts and our additions, `layouts` decides what differs between versions, `reading` and `writing`
say one field in Python, `classes` and `modules` put the text together, `__main__` writes it.
"""
