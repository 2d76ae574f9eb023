"""Adapters that are data: a JSON file with one command line for each ability (README.md, "Another runtime").

    {"name": "mine",
     "load": ["{program}", "-m", "{model}", "-n", "1"],
     "generate": {"command": ["{program}", "-m", "{model}", "-p", "{prompt}", "-n", "{n}"],
                  "settings": {"steps": ["--steps", "{steps}"]},
                  "values": {"algorithm": {"low_confidence": "4"}},
                  "tokens": "json:tokens"},
     "tokenize": {"command": [...], "ids": "integers"}}

In a command {program}, {model}, {prompt} (text), {file} (of exactly the text), {ids} and {rows} (with commas), {out} (a place
for a file) and the settings are filled in. Where a command lacks an ability, its cases are "not applicable".
"""

import json
import os
import re
import tempfile
from pathlib import Path

import numpy as np

from runtime import Generation, NotApplicable, Runtime


class CommandTemplate(Runtime):
    def __init__(self, description, program):
        self.description, self.program = description, program
        self.name = description["name"]
        self.folder = tempfile.TemporaryDirectory(prefix="conformance-template-")

    @classmethod
    def read(cls, path, program):
        return cls(json.loads(Path(path).read_text(encoding="utf-8")), program)

    def version(self):
        command = self.description.get("version")
        if command is None:
            return "unknown"
        outcome = self.call(self.filled(command, {}))
        lines = (outcome.stdout.decode("utf-8", "replace") + outcome.message).splitlines()
        return next((line.strip() for line in lines if line.strip()), "unknown")

    def ability(self, name):
        if name not in self.description:
            raise NotApplicable(f"{self.name} has no command for '{name}'")
        return self.description[name]

    def filled(self, command, values):
        """Each part with its {names} filled in; unknown names are a mistake in the template."""
        values = {"program": self.program, **values}
        return [re.sub(r"\{(\w+)\}", lambda match: str(values[match[1]]), part) for part in command]

    def file_of(self, text):
        path = os.path.join(self.folder.name, "text")
        Path(path).write_bytes(text)
        return path

    def load(self, model):
        return self.call(self.filled(self.ability("load"), {"model": model}))

    def inspect(self, model):
        outcome = self.call(self.filled(self.ability("inspect"), {"model": model}))
        names = re.findall(r"[\w.]+", outcome.stdout.decode("utf-8", "replace"))
        if outcome.status:
            outcome.stdout = b""
        return outcome, names

    def tokenize(self, model, text, *, chat=False, normalize="nfc"):
        ability = self.ability("tokenize")
        if chat and "chat" not in ability or normalize not in ability.get("normalize", ["none"]):
            raise NotApplicable(f"no command for {'the chat format' if chat else 'normalisation ' + normalize}")
        values = {"model": model, "file": self.file_of(text), "prompt": printable(text)}
        outcome = self.need(self.filled(ability["chat"] if chat else ability["command"], values))
        return answer_of(outcome.stdout, ability["ids"])

    def decode(self, model, ids):
        command = self.filled(self.ability("decode"), {"model": model, "ids": ",".join(map(str, ids))})
        return self.need(command).stdout

    def logits(self, model, ids, rows):
        out = os.path.join(self.folder.name, "logits")
        self.need(self.filled(self.ability("logits"), {"model": model, "ids": ",".join(map(str, ids)),
                                                       "rows": ",".join(map(str, rows)), "out": out}))
        return np.fromfile(out, "<f4").reshape(len(list(rows)), -1)

    def generate_command(self, model, prompt, settings):
        """The command line of a generation; NotApplicable for a setting the template has no words for."""
        ability = self.ability("generate")
        spelt = dict(settings)
        if spelt.pop("chat", False) and not ability.get("chat"):
            raise NotApplicable("no chat format")
        for name, allowed in ability.get("values", {}).items():
            if name in spelt:
                if str(spelt[name]) not in allowed:
                    raise NotApplicable(f"no word for {name} {spelt[name]}")
                spelt[name] = allowed[str(spelt[name])]
        command = list(ability["command"])
        used = set(re.findall(r"\{(\w+)\}", " ".join(command)))
        for name in spelt:
            if name not in used and name not in ability.get("settings", {}):
                raise NotApplicable(f"no option for {name}")
            command += ability.get("settings", {}).get(name, [])
        values = {"model": model, "prompt": printable(prompt), "file": self.file_of(prompt), **spelt}
        return self.filled(command, values)

    def generate(self, model, prompt, settings):
        ability = self.ability("generate")
        outcome = self.need(self.generate_command(model, prompt, settings))
        shown = outcome.stdout
        if ability.get("strip", True):
            shown = shown.strip()
        if "text_after" in ability:
            shown = shown[shown.rfind(ability["text_after"].encode()) + len(ability["text_after"]):].lstrip()
        tokens = answer_of(outcome.stdout, ability["tokens"]) if "tokens" in ability else None
        return Generation(tokens=tokens, text=shown)


def printable(text):
    try:
        if b"\0" not in text:
            return text.decode("utf-8")
    except UnicodeDecodeError:
        pass
    return ""


def answer_of(stdout, form):
    """Ids in an output: "json:NAME" (a member of a JSON object, or "json" for a bare list) or "integers"."""
    text = stdout.decode("utf-8", "replace")
    if form == "integers":
        return [int(number) for number in re.findall(r"-?\d+", text)]
    value = json.loads(text)
    for name in form.split(":")[1:]:
        value = value[name]
    return value
