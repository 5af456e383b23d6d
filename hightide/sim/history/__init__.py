"""What clients did and were told, and the checkers that look for broken promises in it (K1-K20 of RELIABILITY).

`recorder.History` is filled by simulated clients and by real ones alike; `checks.check_all` judges it;
`windows.measure` states what it cost (K19). The checkers know nothing of brokers, rules or files: only what was sent,
acknowledged, read and observed, and in which order.
"""
