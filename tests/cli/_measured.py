#!/usr/bin/env python3
"""Measures the machine for the other scripts of this folder, with one thread and with two. Usage: _measured.py PLIMSOLL"""

from _plimsoll import Test


def main():
    test = Test("measured")
    for threads in (1, 2):
        test.succeeds("plan", "config.toml", "--set", f"machine.threads={threads}", "--json")
    test.finish()


if __name__ == "__main__":
    main()
