"""Pages taken apart, and samples to make them of."""

import json
import re
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np

from sevenhills import (
    datasets,
)

EVIL = '<script>alert("x $y")</script>'


VOID = {"meta", "link", "input", "br", "img", "hr"}


class Checker(HTMLParser):
    """Refuses tags that are not closed in order, and keeps what there is."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text.append(data)


def parsed(page):
    checker = Checker()
    checker.feed(page.html)
    checker.close()
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    return checker


def data_of(page):
    text = re.search(r'id="data">(.*?)</script>', page.html, re.DOTALL)[1]
    return json.loads(text, parse_constant=refuse)


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def unpacked(packed):
    kinds = {"f4": "<f4", "u2": "<u2", "i4": "<i4"}
    flat = np.frombuffer(b64decode(packed["bytes"]), kinds[packed["kind"]])
    return flat.reshape(packed["shape"])


def aniso(n):
    return datasets.load("aniso").sample(n, random_state=0)
