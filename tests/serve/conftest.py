"""A `client` as LibreTranslate's tests want it, in front of a live server."""
import json, os, urllib.parse

import pytest

from client import Server


class Response:
    def __init__(self, answer):
        self.data, self.status_code, self.headers = answer.body, answer.status, answer.headers
        self.content_type = answer.headers.get("content-type")

    @property
    def json(self):
        return json.loads(self.data)

    def get_data(self, as_text=False):
        return self.data.decode() if as_text else self.data


class Client:
    def __init__(self, server):
        self.server = server

    def get(self, path, headers=None, **_):
        return Response(self.server.get(path, headers=[f"{k}: {v}" for k, v in
                                                       (headers or {}).items()]))

    def post(self, path, data=None, json=None, headers=None, content_type=None):
        lines = [f"{k}: {v}" for k, v in (headers or {}).items()]
        if json is not None:
            return Response(self.server.post(path, json, headers=lines))
        kind = content_type or "application/x-www-form-urlencoded"
        body = urllib.parse.urlencode(data or {}).encode() if isinstance(data or {}, dict) else data
        return Response(self.server.post(path, body, headers=lines, kind=kind))


@pytest.fixture(scope="session")
def server():
    model = os.environ["MODEL"]
    s = Server(os.environ["HEED"], "--model", "en-es=" + model, "es-en=" + model, "--threads", "1")
    yield s
    assert s.end() == 0


@pytest.fixture()
def client(server):
    return Client(server)
