# SPDX-License-Identifier: Apache-2.0
"""A Hub on the loopback interface that can also lie.

Server(files).start() serves the files of one repository by revision. `plan` maps a file name to a list of behaviours, one for each
request of it in turn (the last one stays): "ok", an HTTP status, or one of

  wrong      other bytes of the same length        short     fewer bytes, with a Content-Length that agrees
  cut        fewer bytes than Content-Length says  drip      a byte now and then
  hang       no answer                             redirect  302 to `elsewhere`
  moved      307 to the same file, relative        loop      a redirect to itself
  norange    ignores Range                         badrange  206 with other bytes than asked for
  huge       an endless body                       nocommit  no x-repo-commit header
  slow       whole, but in pieces (for killing)
"""
import collections
import http.server
import ssl
import threading
import time
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        hub = self.server.hub
        parts = self.path.split("?")[0].split("/")
        hub.log.append((self.path, dict(self.headers)))
        if hub.is_store:  # the host that files are redirected to
            return self.send(200, hub.stored)
        if parts[1] != "kernels" or parts[4] != "resolve" or "/".join(parts[2:4]) not in hub.repos:
            return self.send(404, b"no such repository")
        revision = urllib.parse.unquote(parts[5])
        path = "/".join(parts[6:])
        commit = hub.branches.get(revision, revision)
        files = hub.commits.get(commit)
        if files is None or path not in files:
            return self.send(404, b"Entry not found")
        name = path.rsplit("/", 1)[-1]
        behaviours = hub.plan.get(name, ["ok"])
        behaviour = behaviours[min(hub.count[name], len(behaviours) - 1)]
        hub.count[name] += 1
        if hub.after.get(name):
            hub.after.pop(name)()
        return self.behave(behaviour, files[path], commit)

    def behave(self, behaviour, data, commit):
        hub = self.server.hub
        headers = {} if behaviour == "nocommit" else {"X-Repo-Commit": commit}
        if isinstance(behaviour, int):
            return self.send(behaviour, b"trouble", headers)
        if behaviour == "wrong":
            data = bytes(b ^ 1 for b in data)
        elif behaviour == "short":
            data = data[: len(data) // 2]
        elif behaviour == "redirect":
            hub.elsewhere.stored = data
            return self.send(302, b"", {**headers, "Location": f"{hub.elsewhere.url}/signed?secret=hush"})
        elif behaviour == "moved":
            return self.send(307, b"", {**headers, "Location": self.path.split("?")[0] + "?moved"})
        elif behaviour == "loop":
            return self.send(302, b"", {**headers, "Location": self.path})
        elif behaviour == "hang":
            return time.sleep(30)
        status, start = 200, 0
        wanted = self.headers.get("Range")
        if wanted and behaviour != "norange":
            start = int(wanted.split("=")[1].split("-")[0])
            if start >= len(data):
                return self.send(416, b"", headers)
            status = 206
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            if behaviour == "badrange":
                headers["Content-Range"] = f"bytes 0-{len(data) - 1}/{len(data)}"
                start = 0
        self.write(behaviour, status, data[start:], headers)

    def write(self, behaviour, status, data, headers):
        length = 1 << 40 if behaviour == "huge" else len(data)
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        try:
            if behaviour == "cut":
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
            elif behaviour == "drip":
                for i in range(len(data)):
                    self.wfile.write(data[i : i + 1])
                    self.wfile.flush()
                    time.sleep(0.1)
            elif behaviour == "slow":
                step = max(1, len(data) // 20)
                for i in range(0, len(data), step):
                    self.wfile.write(data[i : i + step])
                    self.wfile.flush()
                    time.sleep(0.004)
            elif behaviour == "huge":
                while True:
                    self.wfile.write(b"\0" * 65536)
            else:
                self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def send(self, status, data, headers=None):
        self.write("ok", status, data, headers or {})


class Server:
    def __init__(self, repos=(), certificate=None):
        self.repos = set(repos)
        self.commits, self.branches = {}, {}  # commit -> {path: bytes}; name -> commit
        self.plan, self.after = {}, {}
        self.count, self.log = collections.Counter(), []
        self.elsewhere, self.is_store, self.stored = None, False, b""
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.hub = self
        self.http.handle_error = lambda request, address: None  # a killed client is what some tests are about
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def reset(self):
        self.plan, self.after = {}, {}
        self.count.clear()
        self.log.clear()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
