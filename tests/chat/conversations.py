"""Conversations from a seed, with tools, system turns, empty turns, odd characters, and texts that look like special tokens."""
import random

WORDS = ("the a river stone hello world 42 3.14 naïve café Straße Привет 你好 世界 こんにちは مرحبا 🙂 👩‍👩‍👧 e\u0301 don't it's x=1; "
         "{{ braces }} {% raw %} <b>bold</b> a&b \"quoted\" back\\slash \u00a0nbsp \u2028ls \u200b").split(" ")
SPECIAL = ["<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|start_header_id|>", "<|endoftext|>", "</s>", "<s>", "[INST]", "[/INST]",
           "<end_of_turn>", "<|end|>", "<think>", "</think>", "<tool_call>", "</tool_response>"]
ENDS = ["", "", "", "\n", " ", "\n\n", "\t"]

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a place, \"now\".",
        "parameters": {"type": "object", "properties": {
            "place": {"type": "string", "description": "A city, e.g. Zürich"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "default": 3}}, "required": ["place"]}}},
    {"type": "function", "function": {
        "name": "add", "description": "Adds <numbers> & returns 'sum'.",
        "parameters": {"type": "object", "properties": {
            "items": {"type": "array", "items": {"type": "number"}, "description": "what to add"},
            "exact": {"type": "boolean"},
            "options": {"type": "object", "properties": {"scale": {"type": "number", "nullable": True}}}},
            "required": ["items", "exact"]}, "return": {"type": "number"}}},
    {"type": "function", "function": {
        "name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}},
]


class Maker:
    def __init__(self, seed, special):
        self.random = random.Random(seed)
        self.special = special

    def text(self, longest=20):
        rng = self.random
        if rng.random() < 0.06:
            return rng.choice(["", " ", "\n", "ok", "\n\n x "])
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, longest))]
        for i in range(len(words) - 1):
            words[i] += rng.choice([" ", " ", " ", "\n", "  ", "\n\n", "\r\n"])
        if self.special and rng.random() < 0.5:
            words.insert(rng.randrange(len(words) + 1), rng.choice(SPECIAL))
        return rng.choice(ENDS) + "".join(words) + rng.choice(ENDS)

    def arguments(self, name):
        rng = self.random
        if name == "get_weather":
            return {"place": self.text(3), "unit": rng.choice(["celsius", None]), "days": rng.randint(-3, 9)}
        if name == "add":
            return {"items": [rng.choice([1, -2, 0.5, 1e21, 1.5e-7, 100000.0]) for _ in range(rng.randint(0, 3))],
                    "exact": rng.random() < 0.5, "options": {"scale": rng.choice([None, 2.0]), "deep": {"a": [[], {}]}}}
        return {}

    def call(self, number):
        rng = self.random
        name = rng.choice(["get_weather", "add", "now"])
        return {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": self.arguments(name)}}

    def assistant(self, tools, number):
        rng = self.random
        turn = {"role": "assistant", "content": self.text()}
        if rng.random() < 0.15:
            turn["reasoning_content"] = self.text(8)
        elif rng.random() < 0.1:
            turn["content"] = "<think>\n" + self.text(6) + "\n</think>\n\n" + self.text(6)
        if tools and rng.random() < 0.5:
            turn["tool_calls"] = [self.call(number + i) for i in range(rng.choice([1, 1, 1, 2, 3]))]
            if rng.random() < 0.6:
                turn["content"] = rng.choice(["", None])
        return turn

    def conversation(self):
        rng = self.random
        tools = rng.sample(TOOLS, rng.randint(1, len(TOOLS))) if rng.random() < 0.4 else None
        messages = []
        if rng.random() < 0.4:
            messages.append({"role": "system", "content": self.text()})
        for number in range(rng.randint(1, 4)):
            messages.append({"role": "user", "content": self.text()})
            turn = self.assistant(tools, 10 * number)
            messages.append(turn)
            while "tool_calls" in turn:
                for call in turn["tool_calls"]:
                    content = rng.choice([self.text(5), '{"result": 1.5, "ok": true}'])
                    messages.append({"role": "tool", "name": call["function"]["name"], "tool_call_id": call["id"],
                                     "content": content})
                turn = self.assistant(tools if rng.random() < 0.3 else None, 10 * number + 5)
                messages.append(turn)
        if rng.random() < 0.1:
            messages.append({"role": "user", "content": self.text()})
        if rng.random() < 0.1:
            for message in messages:
                if message["role"] == "user":
                    message["content"] = [{"type": "text", "text": message["content"]}]
        sample = {"messages": messages}
        if tools:
            sample["tools"] = tools
        return sample


def conversations(count, seed, special=False):
    return [Maker(f"{seed}-{i}", special).conversation() for i in range(count)]
