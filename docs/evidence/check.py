#!/usr/bin/env python3
"""Checks what stands in this folder: every record, every proof, and the chain of signed roots.

Usage: python3 check.py [FOLDER] [--keys FILE] [--witness-keys FILE]

It needs Python 3.8 or later and nothing else: no package, no program of the gateway, and no network. What does not fit is printed, one line each; the exit
code is 0 when everything fits, 1 when something does not, 2 when the folder cannot be read, 3 when all that does not is of a span that a declared restore has cut.

What it checks:
  records.ndjson  record_hash is SHA-256 of the RFC 8785 form of the record without record_hash
  proofs.ndjson   line by line the answer about the record on the same line: the path leads from the leaf SHA-256(0x00 || hash) to root_hash, and its sides and length
                  are those that leaf_index and leaf_count ask for
  roots           each is signed (Ed25519 over the RFC 8785 form of the root without sig) with a key of keys.json, and closed_at is in its time (not_before, not_after);
                  no retired key signs behind a later one
  roots.ndjson    sequence goes up by one, org_id stays, prev_root_hash is SHA-256 of the RFC 8785 form of the root before it (64 zeros for the first), and the root of
                  each proof is one of them; tree_size is the sum of leaf_count so far. A root with "restored" says that the ledger was restored from a backup which
                  ended with root from_sequence: it names that one, sequences between are cut, and what was signed in that span is told as cut
  timestamps/N.tsr  is a time stamp of the root with sequence N; whose it is says openssl (see README.md)
  log-entries.ndjson  each entry is of the root with its sequence, and its path leads to the tree of its checkpoint (RFC 6962); whose log it is says openssl (see README.md)
  checkpoint.txt  is signed with a key of keys.json, and its tree is that of a root of the chain; with --witness-keys (verifier keys, one a line) who has cosigned it
  consistency.json  the tree of its first root goes on in the tree of its second one (RFC 6962, RFC 9162)
"""
import base64
import datetime
import decimal
import hashlib
import json
import os
import re
import sys
import time

MAX_INTEGER = 2**53 - 1
ZEROS = "0" * 64


class Wrong(Exception):
    """Something does not fit."""


class Cut(Exception):
    """It was signed, and a declared restore has cut it: no fork, and not in the ledger any more."""


# Whatever a hostile file makes of the code below is something that does not fit.
FAULTS = (Wrong, ValueError, KeyError, TypeError, RecursionError)


def parse(line):
    """The value of a JSON text. A text that two readers could read differently is refused."""

    def members(pairs):
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            raise Wrong("a name stands twice in one object")
        return dict(pairs)

    def integer(text):
        value = int(text)
        if abs(value) > MAX_INTEGER:
            raise Wrong("an integer is beyond 2^53")
        return value

    def refuse(text):
        raise Wrong("%s is no number of JSON" % text)

    try:
        return json.loads(line, object_pairs_hook=members, parse_int=integer, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Wrong("no JSON: %s" % error)


def number(value):
    """A number as RFC 8785 writes it, which is as JavaScript does."""
    if isinstance(value, int):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        raise Wrong("a number is not finite")
    if value == 0:
        return "0"
    sign, digits, exponent = decimal.Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    point = len(stripped) + exponent
    if len(stripped) <= point <= 21:
        out = stripped + "0" * (point - len(stripped))
    elif 0 < point <= 21:
        out = stripped[:point] + "." + stripped[point:]
    elif -6 < point <= 0:
        out = "0." + "0" * -point + stripped
    else:
        rest = "." + stripped[1:] if len(stripped) > 1 else ""
        out = "%s%se%s%d" % (stripped[0], rest, "+" if point > 0 else "-", abs(point - 1))
    return ("-" if sign else "") + out


def canonical(value):
    """RFC 8785: no white space, members in the order of the UTF-16 code units of their names."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"


def encoded(value):
    try:
        return canonical(value).encode("utf-8")
    except UnicodeEncodeError:
        raise Wrong("a text has half a pair of surrogates")


def without(value, name):
    return {key: member for key, member in value.items() if key != name}


def hex_hash(value, name):
    text = value.get(name)
    if not isinstance(text, str) or len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise Wrong("%s is not 64 lower-case hexadecimal digits" % name)
    return text


def whole(value, name, least):
    found = value.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or found < least:
        raise Wrong("%s is not a whole number from %d up" % (name, least))
    return found


def is_object(value, what):
    if not isinstance(value, dict):
        raise Wrong("%s is not an object" % what)
    return value


def check_record(record):
    if "shortened" in is_object(record, "it"):
        raise Wrong("it is shortened, as lists show it: its hash is that of the whole record")
    stored = hex_hash(record, "record_hash")
    computed = hashlib.sha256(encoded(without(record, "record_hash"))).hexdigest()
    if stored != computed:
        raise Wrong("its hash is %s, and record_hash in it is %s" % (computed, stored))
    return computed


def sides_of(index, count):
    sides = []
    while count > 1:
        if index % 2 == 1:
            sides.append("left")
        elif index + 1 < count:
            sides.append("right")
        index //= 2
        count = (count + 1) // 2
    return sides


def check_proof(proof, record_hash):
    """The root of the proof, when its path leads there from this hash."""
    root = is_object(is_object(proof, "the proof").get("root"), "its root")
    if proof.get("schema") != "gw.inclusion_proof.v1":
        raise Wrong("the proof is of another schema")
    if hex_hash(proof, "record_hash") != record_hash:
        raise Wrong("the proof is of another record (%s)" % proof["record_hash"])
    index, count = whole(proof, "leaf_index", 0), whole(proof, "leaf_count", 1)
    if index >= count or root.get("leaf_count") != count or root.get("batch_id") != proof.get("batch_id"):
        raise Wrong("proof and root do not belong together")
    path = proof.get("path")
    if not isinstance(path, list) or [is_object(step, "a step").get("side") for step in path] != sides_of(index, count):
        raise Wrong("its path is not that of leaf %d of %d" % (index, count))
    node = hashlib.sha256(b"\x00" + bytes.fromhex(record_hash)).digest()
    for step in path:
        sibling = bytes.fromhex(hex_hash(step, "hash"))
        node = hashlib.sha256(b"\x01" + (sibling + node if step["side"] == "left" else node + sibling)).digest()
    if node.hex() != hex_hash(root, "root_hash"):
        raise Wrong("its path does not lead to root_hash")
    return root


def digest(root):
    return hashlib.sha256(encoded(root)).hexdigest()


# Ed25519 as RFC 8032 has it: points are (X, Y, Z, T) with x = X/Z, y = Y/Z, x*y = T/Z.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)


def add_points(a, b):
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def decoded_point(encoded_point):
    y = int.from_bytes(encoded_point, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P != 0:
        x = x * ROOT_OF_MINUS_ONE % P
    if (x * x - square) % P != 0 or (x == 0 and sign == 1):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def encoded_of_point(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = decoded_point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def sum_of_products(a, first, b, second):
    """a times one point and b times another."""
    table = {1: first, 2: second, 3: add_points(first, second)}
    total = (0, 1, 1, 0)
    for bit in range(max(a.bit_length(), b.bit_length()) - 1, -1, -1):
        total = add_points(total, total)
        which = (a >> bit & 1) + 2 * (b >> bit & 1)
        if which:
            total = add_points(total, table[which])
    return total


def signature_fits(key, message, signature):
    point = decoded_point(key)
    scalar = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or point is None or scalar >= ORDER:
        return False
    digest_of_all = hashlib.sha512(signature[:32] + key + message).digest()
    minus = (P - point[0], point[1], 1, P - point[3])
    found = sum_of_products(scalar, BASE, int.from_bytes(digest_of_all, "little") % ORDER, minus)
    return encoded_of_point(found) == signature[:32]


def moment_of(value, name):
    """A time of RFC 3339 as a number; none where it is not said."""
    if name not in value:
        return None
    text = str(value[name])
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text)
    if found is None:
        raise Wrong("%s is no time" % name)
    whole_seconds, part, zone = found.groups()
    base = datetime.datetime.fromisoformat(whole_seconds.upper() + ("+00:00" if zone in "Zz" else zone))
    return base.timestamp() + float("0" + (part or ".0"))


class Signatures:
    """Whose signatures are believed; each root is checked once."""

    def __init__(self, keys):
        self.keys, self.times = {}, {}
        self.fine = set()
        for key in keys:
            if is_object(key, "a key").get("use") == "ledger" and key.get("alg") == "ed25519":
                raw = base64.b64decode(str(key.get("public_key")), validate=True)
                if key["kid"] in self.keys or len(raw) != 32:
                    raise Wrong("key %s cannot be used" % key["kid"])
                self.keys[key["kid"]] = raw
                self.times[key["kid"]] = moment_of(key, "not_before"), moment_of(key, "not_after")

    def check(self, root):
        name = digest(root)
        if name in self.fine:
            return
        sig = is_object(root.get("sig"), "sig")
        key = self.keys.get(sig.get("kid"))
        if sig.get("alg") != "ed25519" or key is None:
            raise Wrong("root %s is signed with a key that is not known (%s)" % (root.get("sequence"), sig.get("kid")))
        if not signature_fits(key, encoded(without(root, "sig")), base64.b64decode(str(sig.get("sig")), validate=True)):
            raise Wrong("root %s: its signature does not fit" % root.get("sequence"))
        begin, end = self.times[sig["kid"]]
        if begin is not None and moment_of(root, "closed_at") < begin:
            raise Wrong("root %s: its key (%s) signs later than it was closed" % (root.get("sequence"), sig["kid"]))
        if end is not None and moment_of(root, "closed_at") >= end:
            raise Wrong("root %s: its key (%s) was retired when it was closed" % (root.get("sequence"), sig["kid"]))
        self.fine.add(name)

    def follow(self, root, begun):
        """When the newest key of a chain began, with this root; no key that was retired by then signs it."""
        begin, end = self.times[root["sig"]["kid"]]
        if begun is not None and end is not None and end <= begun:
            raise Wrong("root %s: its key (%s) was retired, and a root before it is signed by a later key" % (root.get("sequence"), root["sig"]["kid"]))
        return begun if begin is None or (begun is not None and begin < begun) else begin


class Chain:
    """What is kept of the roots of a chain: digests by sequence, and trees where a root signs one."""

    def __init__(self):
        self.digests, self.trees, self.leaves = {}, {}, None
        # First and last sequence of each span that a restore has cut, and what is to be said of it.
        self.cuts = []
        # Of the same: the last sequence, and how many hashes the backup had.
        self.backups = []

    def check_cut(self, sequence, what):
        """Whether what stands under this sequence is cut."""
        for first, last, _ in self.cuts:
            if first <= sequence <= last:
                raise Cut("%s is of a span that a restore has cut" % what)

    def restore(self, root, sequence):
        """The sequence before this root, when it says that the ledger was restored."""
        said = is_object(root["restored"], "restored")
        end, kid = whole(said, "from_sequence", 0), root["sig"]["kid"]
        whole(said, "epoch", 1)
        if sequence <= end + 1 or moment_of(said, "at") is None:
            raise Wrong("root %d: restored cuts nothing, or has no time" % sequence)
        reason = " (%s)" % json.dumps(said["reason"]) if "reason" in said else ""
        word = "declared at %s%s, signed in root %d with %s" % (json.dumps(said["at"]), reason, sequence, json.dumps(kid))
        self.cuts.append((end + 1, sequence - 1, "restored: roots %d to %d are cut, the backup ended with root %d; %s" % (end + 1, sequence - 1, end, word)))
        count = whole(root, "leaf_count", 1)
        self.backups.append((sequence - 1, whole(root, "tree_size", count) - count if "tree_size" in root else 0))
        return end

    def take(self, root, sequence, is_first):
        count = whole(root, "leaf_count", 1)
        self.leaves = count if is_first else None if self.leaves is None else self.leaves + count
        if "tree_size" in root or "tree_hash" in root:
            size, tree = whole(root, "tree_size", count), hex_hash(root, "tree_hash")
            if self.leaves not in (None, size):
                raise Wrong("root %d: tree_size is %d, and %d hashes are under the roots up to it" % (sequence, size, self.leaves))
            if size == count and tree != hex_hash(root, "root_hash"):
                raise Wrong("root %d: tree_hash is not root_hash, though its batch is all there is" % sequence)
            self.leaves, self.trees[sequence] = size, (size, tree)
        self.digests[sequence] = digest(root)


def path_length(first, second):
    """How many hashes lead from a tree of so many leaves to a larger one (RFC 6962, 2.1.2)."""
    length, is_whole = 0, True
    while first < second:
        split = 1
        while split * 2 < second:
            split *= 2
        if first <= split:
            second = split
        else:
            first, second, is_whole = first - split, second - split, False
        length += 1
    return length if is_whole else length + 1


def check_consistency(proof, chain):
    """That the tree of one root goes on in that of a later one (RFC 9162, 2.1.4.2)."""
    trees = []
    for name in ("first", "second"):
        head = is_object(is_object(proof, "it").get(name), name)
        sequence = whole(head, "sequence", 1)
        chain.check_cut(sequence, "root %d" % sequence)
        if chain.trees.get(sequence) != (whole(head, "tree_size", 1), hex_hash(head, "tree_hash")):
            raise Wrong("%s has another tree than root %d of the chain signs" % (name, sequence))
        trees.append(chain.trees[sequence])
    (size, old_hash), (new_size, new_hash) = trees
    path = proof.get("path")
    if size > new_size or not isinstance(path, list) or len(path) != path_length(size, new_size):
        raise Wrong("the path is not that of a tree of %d leaves and one of %d" % (size, new_size))
    hashes = [bytes.fromhex(hex_hash({"path": step}, "path")) for step in path]
    old, last = size - 1, new_size - 1
    while old & 1:
        old, last = old >> 1, last >> 1
    if old == 0:
        hashes.insert(0, bytes.fromhex(old_hash))
    first = second = hashes[0]
    for step in hashes[1:]:
        if old & 1 or old == last:
            first, second = (hashlib.sha256(b"\x01" + step + node).digest() for node in (first, second))
            while old and not old & 1:
                old, last = old >> 1, last >> 1
        else:
            second = hashlib.sha256(b"\x01" + second + step).digest()
        old, last = old >> 1, last >> 1
    if first.hex() != old_hash or second.hex() != new_hash:
        raise Wrong("the path does not lead to both trees: what was under the first root was changed")


def note_key(vkey, kind):
    """Name, id and key of a verifier key (C2SP signed-note)."""
    name, identity, material = (vkey.split("+", 2) + ["", ""])[:3]
    material = base64.b64decode(material, validate=True)
    if material[:1] != bytes([kind]) or len(material) != 33 or key_id(name, material) != bytes.fromhex(identity):
        raise Wrong("%s is no verifier key of a witness" % json.dumps(vkey))
    return name, bytes.fromhex(identity), material[1:]


def key_id(name, material):
    return hashlib.sha256(name.encode("utf-8") + b"\n" + material).digest()[:4]


def check_checkpoint(note, chain, signatures, witnesses):
    """The size of its tree, and who has cosigned it when (C2SP tlog-checkpoint, tlog-cosignature)."""
    text, _, lines = note.rpartition("\n\n")
    text += "\n"
    origin, size, tree = (text.split("\n") + ["", ""])[:3]
    is_there = (int(size), base64.b64decode(tree, validate=True).hex()) in chain.trees.values()
    # A ledger that was restored is another log, which begins with the root of the restore. What was cut is larger than the backup.
    begun = re.search(r"/restored/(\d+)/orgs/[^/]*$", origin)
    is_cut = any(last >= int(begun.group(1) if begun else 0) and int(size) > hashes for last, hashes in chain.backups)
    if not is_there and not is_cut:
        raise Wrong("its tree is of no root in the chain")
    keys = [(origin, key_id(origin, b"\x01" + key), key, None) for key in signatures.keys.values()]
    keys += [(name, identity, key, True) for name, identity, key in witnesses]
    by_log, cosigners = False, []
    for line in lines.rstrip("\n").split("\n"):
        dash, name, blob = line.split(" ")
        blob = base64.b64decode(blob, validate=True)
        for key_name, identity, key, is_witness in keys:
            if dash != "\u2014" or (name, blob[:4]) != (key_name, identity):
                continue
            seconds = int.from_bytes(blob[4:12], "big") if is_witness else 0
            message = "cosignature/v1\ntime %d\n%s" % (seconds, text) if is_witness else text
            if not signature_fits(key, message.encode("utf-8"), blob[12:] if is_witness else blob[4:]):
                raise Wrong("the signature of %s does not fit" % name)
            if is_witness:
                cosigners.append((name, seconds))
            by_log = by_log or not is_witness
    if not by_log:
        raise Wrong("no key that is known has signed it as the log %s" % origin)
    if not is_there:
        raise Cut("its tree is of a span that a restore has cut")
    return int(size), cosigners


def der_members(content):
    """The values in a constructed one, as pairs of tag and content."""
    members, at = [], 0
    while at < len(content):
        tag, length, at = content[at], content[at + 1], at + 2
        if length > 127:
            more = length - 128
            length, at = int.from_bytes(content[at:at + more], "big"), at + more
        if at + length > len(content):
            raise Wrong("it ends too early")
        members.append((tag, content[at:at + length]))
        at += length
    return members


def stamped_at(answer, root_digest):
    """The time that a time stamp says (RFC 3161), where it is of this root."""
    try:
        token = der_members(der_members(answer)[0][1])[1][1]
        signed_data = der_members(der_members(token)[1][1])[0][1]
        inner = der_members(der_members(signed_data)[2][1])[1][1]
        statement = der_members(der_members(der_members(inner)[0][1])[0][1])
        imprint, moment = der_members(statement[2][1])[1][1], statement[4][1].decode("ascii")
    except IndexError:
        raise Wrong("it is no time stamp")
    if imprint.hex() != root_digest:
        raise Wrong("it is of something else (%s)" % imprint.hex())
    return moment


def check_stamps(folder, chain, cut):
    """The newest root with a time stamp, and its time; what is of a cut span is noted."""
    newest = None
    for name in sorted(os.listdir(folder), key=lambda one: (len(one), one)):
        try:
            sequence = int(name[:-4]) if name.endswith(".tsr") else -1
            chain.check_cut(sequence, "its root")
            if sequence not in chain.digests:
                raise Wrong("its root is not in the chain")
            with open(os.path.join(folder, name), "rb") as file:
                newest = sequence, stamped_at(file.read(), chain.digests[sequence])
        except Cut as error:
            cut.append("cut: time stamp %s: %s" % (name, error))
        except FAULTS as error:
            raise Wrong("%s: %s" % (name, error))
    return newest


def entered_at(listed, root_digest):
    """When a log took an entry, where it is of this root and in the tree of its checkpoint."""
    entry = is_object(is_object(listed, "it").get("entry"), "entry")
    proof = is_object(is_object(entry.get("verification"), "verification").get("inclusionProof"), "inclusionProof")
    body = base64.b64decode(str(entry.get("body")), validate=True)
    of = is_object(is_object(is_object(parse(body.decode("utf-8")), "body").get("spec"), "spec").get("payloadHash"), "payloadHash")
    if of != {"algorithm": "sha256", "value": root_digest}:
        raise Wrong("it is of something else than its root")
    index, count, path = whole(proof, "logIndex", 0), whole(proof, "treeSize", 1), proof.get("hashes")
    sides = sides_of(index, count)
    if index >= count or not isinstance(path, list) or len(path) != len(sides):
        raise Wrong("its path is not that of leaf %d of %d" % (index, count))
    node = hashlib.sha256(b"\x00" + body).digest()
    for side, step in zip(sides, path):
        sibling = bytes.fromhex(hex_hash({"path": step}, "path"))
        node = hashlib.sha256(b"\x01" + (sibling + node if side == "left" else node + sibling)).digest()
    if str(proof.get("checkpoint")).split("\n")[1:3] != [str(count), base64.b64encode(node).decode("ascii")]:
        raise Wrong("its path does not lead to the tree of its checkpoint")
    seconds = whole(entry, "integratedTime", 1)
    if seconds > 253402300799:
        raise Wrong("integratedTime is no time")
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def check_entries(path, chain, cut):
    """The newest root with an entry in a log, and its time; what is of a cut span is noted."""
    newest = None
    for at, line in enumerate(lines_of(path), 1):
        try:
            listed = is_object(parse(line), "it")
            sequence = whole(listed, "sequence", 1)
            chain.check_cut(sequence, "its root")
            if sequence not in chain.digests:
                raise Wrong("its root is not in the chain")
            newest = sequence, entered_at(listed, chain.digests[sequence])
        except Cut as error:
            cut.append("cut: log entry on line %d: %s" % (at, error))
        except FAULTS as error:
            raise Wrong("on line %d: %s" % (at, error))
    return newest


def lines_of(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            if line.strip():
                yield line


def check_chain(path, signatures):
    chain, before, org, begun = Chain(), None, None, None
    for line in lines_of(path):
        root = is_object(parse(line), "a root")
        sequence = whole(root, "sequence", 1)
        signatures.check(root)
        begun = signatures.follow(root, begun)
        place = chain.restore(root, sequence) if "restored" in root else sequence - 1
        if before is not None and place != before:
            raise Wrong("root %d: root %d should stand there" % (sequence, before + 1))
        if org is not None and root.get("org_id") != org:
            raise Wrong("root %d is of another org" % sequence)
        expected = chain.digests[before] if before is not None else ZEROS if place == 0 else hex_hash(root, "prev_root_hash")
        if hex_hash(root, "prev_root_hash") != expected:
            raise Wrong("root %d: prev_root_hash is not that of the root before it" % sequence)
        chain.take(root, sequence, place == 0)
        before, org = sequence, root.get("org_id")
    return chain


def check_pair(record_line, proof_line, signatures, chain):
    """The root that proves a record, and the org that the record names; no root: it waits for one."""
    record = parse(record_line)
    record_hash = check_record(record)
    answer = is_object(parse(proof_line), "the answer")
    if answer.get("record_hash") != record_hash:
        raise Wrong("the proof on its line is of another record")
    if answer.get("status") == "pending_inclusion":
        return None, record.get("org_id")
    root = check_proof(answer.get("inclusion_proof"), record_hash)
    if signatures is not None:
        signatures.check(root)
    if chain is not None and chain.digests.get(root.get("sequence")) != digest(root):
        chain.check_cut(whole(root, "sequence", 1), "root %d of its proof" % root["sequence"])
        raise Wrong("root %s of its proof is not in the chain" % root.get("sequence"))
    return root, record.get("org_id")


def witnesses_in(path):
    if path is None:
        return []
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return [note_key(line, 4) for line in lines if line and not line.startswith("#")]


def count_lines(path):
    return sum(1 for _ in lines_of(path))


def main(arguments):
    folder = "."
    key_file = witness_file = None
    while arguments:
        argument = arguments.pop(0)
        if argument == "--keys" and arguments:
            key_file = arguments.pop(0)
        elif argument == "--witness-keys" and arguments:
            witness_file = arguments.pop(0)
        else:
            folder = argument
    place = lambda name: os.path.join(folder, name)
    key_file = key_file or (place("keys.json") if os.path.exists(place("keys.json")) else None)
    problems, notes, cut, proved, waiting = [], [], [], 0, 0
    signatures = chain = None
    try:
        if key_file is not None:
            with open(key_file, encoding="utf-8") as file:
                signatures = Signatures(is_object(parse(file.read()), "keys").get("data", []))
        if signatures is not None and os.path.exists(place("roots.ndjson")):
            chain = check_chain(place("roots.ndjson"), signatures)
            notes += [line for _, _, line in chain.cuts]
    except FAULTS as error:
        problems.append("chain: %s" % error)
    try:
        if chain is not None and os.path.exists(place("consistency.json")):
            with open(place("consistency.json"), encoding="utf-8") as file:
                check_consistency(parse(file.read()), chain)
    except Cut as error:
        cut.append("cut: consistency: %s" % error)
    except FAULTS as error:
        problems.append("consistency: %s" % error)
    try:
        if chain is not None and os.path.isdir(place("timestamps")):
            newest = check_stamps(place("timestamps"), chain, cut)
            if newest is not None:
                notes.append("note: root %d was there at %s, says its time stamp; openssl shows whose it is (README.md)" % newest)
    except FAULTS as error:
        problems.append("time stamp %s" % error)
    try:
        if chain is not None and os.path.exists(place("log-entries.ndjson")):
            newest = check_entries(place("log-entries.ndjson"), chain, cut)
            if newest is not None:
                notes.append("note: root %d was entered in a log at %s, says its entry; openssl shows whose log it is (README.md)" % newest)
    except FAULTS as error:
        problems.append("log entry %s" % error)
    try:
        if chain is not None and os.path.exists(place("checkpoint.txt")):
            with open(place("checkpoint.txt"), encoding="utf-8", newline="") as file:
                size, cosigners = check_checkpoint(file.read(), chain, signatures, witnesses_in(witness_file))
            notes.append("note: the checkpoint of %d hashes is signed by its log" % size)
            for name, seconds in cosigners:
                notes.append("note: %s has cosigned it at %s" % (json.dumps(name), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))))
    except Cut as error:
        cut.append("cut: checkpoint: %s" % error)
    except FAULTS as error:
        problems.append("checkpoint: %s" % error)
    if count_lines(place("records.ndjson")) != count_lines(place("proofs.ndjson")):
        problems.append("records.ndjson and proofs.ndjson have not the same number of lines")
    for at, pair in enumerate(zip(lines_of(place("records.ndjson")), lines_of(place("proofs.ndjson"))), 1):
        try:
            root, org = check_pair(pair[0], pair[1], signatures, chain)
            if root is None:
                waiting += 1
                continue
            proved += 1
            if org != root.get("org_id"):
                notes.append("note: record on line %d names the org %s, and the ledger is that of %s" % (at, json.dumps(org), json.dumps(root.get("org_id"))))
        except Cut as error:
            cut.append("cut: record on line %d: %s" % (at, error))
        except FAULTS as error:
            problems.append("record on line %d: %s" % (at, error))
    if key_file is None and proved > 0:
        problems.insert(0, "signatures: not checked, there is no keys.json: --keys FILE names the keys of the ledger")
    if proved == 0 and waiting > 0:
        notes.append("note: no root has been made over these records (a gateway without a control plane makes none): each fits its own hash, and nothing shows when it was written")
    for line in problems + cut + notes:
        print(line)
    shown = "no chain" if chain is None else "a chain of %d roots" % len(chain.digests)
    cut_shown = "; %d things are of a span that a restore has cut" % len(cut) if cut else ""
    print("%d records are proved, %d wait for a root; %s; %d problems%s" % (proved, waiting, shown, len(problems), cut_shown))
    return 1 if problems else 3 if cut else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, UnicodeDecodeError) as failure:
        print("it cannot be read: %s" % failure)
        sys.exit(2)
