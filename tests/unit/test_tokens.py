"""Tokens through their public face: what each party can and cannot do."""

from __future__ import annotations

import ast
import copy
import hashlib
import inspect
import json
import pickle
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

import thebes.tokens
from thebes.privacy.faults import Mistake, Refusal
from thebes.tokens import (
    Authority,
    Context,
    Credential,
    Enrolment,
    EnrolmentRefused,
    Flaw,
    GroupParameters,
    GroupTooSmall,
    Presented,
    TokenRefused,
    UnpinnedGroup,
    codec,
    verify,
    verify_many,
)
from thebes.tokens.bbs import batch, commitment, proof
from thebes.tokens.bbs import suite as suite_file
from thebes.tokens.bbs.curve import ORDER, FixedPoints, KeyPoint, combine, hash_to_point, read_scalar, signed_by
from thebes.tokens.bbs.pseudonym import context_point
from thebes.tokens.bbs.scheme import SUITE, BbsPseudonyms
from thebes.tokens.bbs.signature import Issuer, Signature

ROOM = Path(thebes.tokens.__file__).parent
HERE = Context("task", hashlib.sha256(b"document").hexdigest(), "h0")
REPORT = HERE.report_digest(b"{}")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("friends", "2026-12", minimum=2)


@pytest.fixture(scope="module")
def published(authority: Authority) -> GroupParameters:
    return authority.parameters(size=3)


def enrolled(authority: Authority, published: GroupParameters) -> Credential:
    begun = Enrolment.begin(published, pin=published.digest)
    return begun.finish(authority.enrol(begun.request))


@pytest.fixture(scope="module")
def credential(authority: Authority, published: GroupParameters) -> Credential:
    return enrolled(authority, published)


# --- one voice for each peer, bound to what it says


def test_a_second_token_for_a_context_has_the_same_pseudonym_and_other_bytes(
    credential: Credential, published: GroupParameters
) -> None:
    other = HERE.report_digest(b"another report")
    first, second = credential.present(HERE, REPORT, published), credential.present(HERE, other, published)
    assert first[:400] != second[:400]
    assert verify(published, HERE, REPORT, first) == verify(published, HERE, other, second)


def test_a_peer_knows_its_pseudonym_in_a_context_before_it_presents(
    credential: Credential, published: GroupParameters
) -> None:
    for part in ("h0", "h1"):
        context = replace(HERE, part=part)
        token = credential.present(context, REPORT, published)
        assert credential.pseudonym(context) == verify(published, context, REPORT, token)
    assert credential.pseudonym(HERE) != credential.pseudonym(replace(HERE, part="h1"))


def test_a_token_counts_for_its_report_context_and_group_alone(
    credential: Credential, published: GroupParameters
) -> None:
    token = credential.present(HERE, REPORT, published)
    elsewhere = [
        (published, HERE, HERE.report_digest(b"{} ")),
        (published, HERE, replace(HERE, task_digest="0" * 64).report_digest(b"{}")),
        (published, replace(HERE, task_id="another"), REPORT),
        (published, replace(HERE, task_digest="0" * 64), REPORT),
        (published, replace(HERE, part="h1"), REPORT),
        (replace(published, epoch="2027-01"), HERE, REPORT),
        (replace(published, group="strangers"), HERE, REPORT),
        (Authority.create("friends", "2026-12", minimum=2).parameters(size=3), HERE, REPORT),
    ]
    for group, context, report in elsewhere:
        with pytest.raises(TokenRefused, match=r"refused \(proof\)"):
            verify(group, context, report, token)


def test_the_same_request_again_gives_no_second_credential(authority: Authority, published: GroupParameters) -> None:
    begun = Enrolment.begin(published, pin=published.digest)
    assert authority.enrol(begun.request) == authority.enrol(begun.request)


def test_two_enrolments_of_one_secret_still_have_two_pseudonyms(
    authority: Authority, published: GroupParameters
) -> None:
    """Peers who share a secret cannot pass for one another; nor can a peer choose its pseudonyms."""
    names = set()
    for _ in range(2):
        blind, *masks = SUITE.fresh_scalars(3)
        request = codec.write(1, commitment.commit(SUITE, [7], blind=blind, masks=masks))
        begun = Enrolment(published, request, suite_file.write(blind, 7))
        token = begun.finish(authority.enrol(request)).present(HERE, REPORT, published)
        names.add(verify(published, HERE, REPORT, token))
    assert len(names) == 2


# --- what a peer refuses


def test_a_peer_begins_and_presents_only_with_the_pinned_group(
    credential: Credential, published: GroupParameters
) -> None:
    for other in (replace(published, minimum=3), replace(published, epoch="2027-01"), replace(published, group="me")):
        with pytest.raises(UnpinnedGroup) as refused:
            Enrolment.begin(other, pin=published.digest)
        assert (refused.value.expected, refused.value.found) == (published.digest, other.digest)
        with pytest.raises(UnpinnedGroup):
            credential.present(HERE, REPORT, other)


def test_a_credential_under_a_header_of_its_own_is_refused(authority: Authority, published: GroupParameters) -> None:
    """An authority that marks a peer by its header or key is found out before there is anything to present."""
    begun = Enrolment.begin(published, pin=published.digest)
    for marking in (replace(authority, epoch="2026-12.peer-7"), Authority.create("friends", "2026-12", minimum=2)):
        with pytest.raises(EnrolmentRefused) as refused:
            begun.finish(marking.enrol(begun.request))
        assert refused.value.flaw is Flaw.SIGNATURE


def test_nothing_is_presented_below_the_minimum_size(authority: Authority, credential: Credential) -> None:
    with pytest.raises(GroupTooSmall) as refused:
        credential.present(HERE, REPORT, authority.parameters(size=1))
    assert (refused.value.size, refused.value.minimum) == (1, 2)
    assert credential.present(HERE, REPORT, authority.parameters(size=2))


def test_a_group_of_one_cannot_be_made() -> None:
    with pytest.raises(Mistake, match=r"^minimum"):
        Authority.create("friends", "2026-12", minimum=1)


# --- batches


def forged(published: GroupParameters, credential: Credential, point: str) -> bytes:
    """A token whose proof is true but for the signature, of somebody who was never enrolled."""
    kept = bytes.fromhex(credential.as_json()["secret"])
    signature = replace(Signature.read(kept[:80]), a=hash_to_point(point.encode(), b"forged"))
    return token_of(published, kept, signature, SUITE.fresh_scalars(7))


def token_of(published: GroupParameters, kept: bytes, signature: Signature, masks: list[int]) -> bytes:
    issuer = Issuer.of_pseudonyms(SUITE, published.public_key, published.header, messages=0, committed=0, secrets=1)
    context = context_point(SUITE, HERE.digest(published))
    scalars = [read_scalar(kept[80:112]), read_scalar(kept[112:])]
    made, name = proof.prove(issuer, signature, scalars, (), context=context, secrets=1, header=REPORT, masks=masks)
    return made.write() + suite_file.write(name)


@pytest.mark.few(2)
@pytest.mark.parametrize("bad", [set(), {0}, {11}, {4, 5}, set(range(0, 12, 2)), set(range(12))])
def test_a_batch_says_of_each_what_it_says_of_one(
    bad: set[int], authority: Authority, published: GroupParameters
) -> None:
    peers = [enrolled(authority, published) for _ in range(3)]
    tokens = [
        codec.write(1, forged(published, peers[n % 3], str(n)))
        if n in bad
        else peers[n % 3].present(HERE, REPORT, published)
        for n in range(12)
    ]
    tokens[7] = codec.write(1, b"short")  # unreadable, whatever else is bad
    together = verify_many(published, [Presented(HERE, REPORT, token) for token in tokens])
    found = [one.flaw if isinstance(one, TokenRefused) else one for one in together]
    assert found == [outcome(published, token) for token in tokens]
    refused = dict.fromkeys(bad, Flaw.SIGNATURE) | {7: Flaw.LENGTH}
    assert {place: one for place, one in enumerate(found) if isinstance(one, Flaw)} == refused


def outcome(published: GroupParameters, token: str) -> str | Flaw:
    try:
        return verify(published, HERE, REPORT, token)
    except TokenRefused as refused:
        return refused.flaw


def test_two_forgeries_that_cancel_out_are_both_found(published: GroupParameters, credential: Credential) -> None:
    kept = bytes.fromhex(credential.as_json()["secret"])
    true, error = Signature.read(kept[:80]), hash_to_point(b"error", b"forged")
    r1, r2, *rest = SUITE.fresh_scalars(7)
    cores = [token_of(published, kept, replace(true, a=a), [r1, r2, *rest]) for a in (true.a + error, true.a - error)]
    proofs = [proof.Proof.read(core[:336], 2) for core in cores]
    issuer = Issuer.of_pseudonyms(SUITE, published.public_key, published.header, messages=0, committed=0, secrets=1)
    assert signed_by(issuer.key, proofs[0].a + proofs[1].a, proofs[0].b + proofs[1].b)  # without weights: accepted
    assert batch.verified(issuer.key, proofs) == [False, False]
    presented = [Presented(HERE, REPORT, codec.write(1, core)) for core in cores]
    assert [result.flaw for result in verify_many(published, presented) if not isinstance(result, str)] == [
        Flaw.SIGNATURE,
        Flaw.SIGNATURE,
    ]


def test_a_batch_may_mix_contexts_and_may_be_empty(credential: Credential, published: GroupParameters) -> None:
    assert verify_many(published, []) == []
    contexts = [replace(HERE, part=f"h{n}") for n in range(4)]
    presented = [Presented(context, REPORT, credential.present(context, REPORT, published)) for context in contexts]
    assert len(set(map(str, verify_many(published, presented)))) == 4


def test_bad_tokens_cost_at_most_twice_as_many_pairings_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch, published: GroupParameters, credential: Credential
) -> None:
    asked = []
    monkeypatch.setattr(batch, "signed_by", lambda *given: asked.append(given) or signed_by(*given))
    cores = [forged(published, credential, str(n)) for n in range(16)]
    verify_many(published, [Presented(HERE, REPORT, codec.write(1, core)) for core in cores])
    assert len(asked) <= 2 * len(cores)


# --- chance


def test_nothing_public_lets_its_caller_choose_random_numbers() -> None:
    allowed = {"group", "epoch", "minimum", "scheme", "size", "request", "value", "parameters", "pin", "response"}
    allowed |= {"context", "report_digest", "published", "token", "presented", "report", "self", "names"}
    for public in (Authority, Enrolment, Credential, GroupParameters, Context):
        for name, method in inspect.getmembers(public, callable):
            if not name.startswith("_"):
                assert set(inspect.signature(method).parameters) <= allowed, name
    for function in (verify, verify_many):
        assert set(inspect.signature(function).parameters) <= allowed
    for name, method in inspect.getmembers(BbsPseudonyms(), callable):
        if not name.startswith("_"):
            bytes_only = {"key", "public_key", "header", "request", "secret", "response", "credential", "shown"}
            assert set(inspect.signature(method).parameters) <= bytes_only | {"context", "binding"}, name


def secret_from_two(first: bytes, second: bytes) -> int:
    """The pseudonym secret, if two proofs were masked by the same numbers."""
    a, b = proof.Proof.read(first[:336], 2), proof.Proof.read(second[:336], 2)
    return (a.hidden[1] - b.hidden[1]) * pow(a.challenge - b.challenge, -1, ORDER) % ORDER


def core_of(token: str) -> bytes:
    return codec.read(token, version=1, length=384)


def test_a_repeated_entropy_does_not_reveal_the_secret(
    monkeypatch: pytest.MonkeyPatch, credential: Credential, published: GroupParameters
) -> None:
    kept = bytes.fromhex(credential.as_json()["secret"])
    secret, signature = read_scalar(kept[112:]), Signature.read(kept[:80])
    masks = SUITE.fresh_scalars(7)
    broken = token_of(published, kept, signature, masks)
    monkeypatch.setattr(secrets, "token_bytes", lambda count: bytes(count))
    tokens = [credential.present(HERE, HERE.report_digest(body), published) for body in (b"1", b"2")]
    assert secret_from_two(*map(core_of, tokens)) != secret
    again = [credential.present(replace(HERE, part=part), REPORT, published) for part in ("h1", "h2")]
    assert secret_from_two(*map(core_of, again)) != secret
    # the control: with equal masks it is revealed, so the comparison above means something
    issuer = Issuer.of_pseudonyms(SUITE, published.public_key, published.header, messages=0, committed=0, secrets=1)
    made, name = proof.prove(
        issuer,
        signature,
        [read_scalar(kept[80:112]), secret],
        (),
        context=context_point(SUITE, HERE.digest(published)),
        secrets=1,
        header=HERE.report_digest(b"other"),
        masks=masks,
    )
    assert secret_from_two(broken, made.write() + suite_file.write(name)) == secret


def test_fresh_scalars_differ_and_are_never_zero() -> None:
    drawn = SUITE.fresh_scalars(150)
    assert len(set(drawn)) == 150
    assert all(0 < number < ORDER for number in drawn)


# --- keeping


def test_what_is_kept_comes_back_as_it_was(
    authority: Authority, published: GroupParameters, credential: Credential
) -> None:
    begun = Enrolment.begin(published, pin=published.digest)
    for one in (authority, published, credential, begun):
        assert type(one).from_json(json.loads(json.dumps(one.as_json()))) == one


def test_a_changed_record_is_refused_by_the_field_that_gives_it_away(
    authority: Authority, published: GroupParameters, credential: Credential
) -> None:
    record = published.as_json()
    for field in ("header", "constants", "digest"):
        with pytest.raises(Mistake, match=rf"^{field}: does not follow"):
            GroupParameters.from_json({**record, field: "00" * 32})
    for change in ({"minimum": 3}, {"names": "public"}):
        with pytest.raises(Mistake, match=r"^digest"):
            GroupParameters.from_json({**record, **change})
    with pytest.raises(Mistake, match=r"^names"):
        GroupParameters.from_json({**record, "names": "some"})
    with pytest.raises(Mistake, match="version"):
        GroupParameters.from_json({**record, "version": 1})
    for key in ("00" * 96, "c0" + "00" * 95, "ff" * 96, record["public_key"][:-2]):
        with pytest.raises(Mistake, match=r"^public_key"):
            GroupParameters.from_json({**record, "public_key": key})
    with pytest.raises(Mistake, match=r"^scheme"):
        GroupParameters.from_json({**record, "scheme": "bbs-nym-2"})
    for key in ("00" * 32, "ff" * 32, "01"):
        with pytest.raises(Mistake, match=r"^secret_key"):
            Authority.from_json({**authority.as_json(), "secret_key": key})
    kept = credential.as_json()
    for secret in (kept["secret"][:-2], kept["secret"][:-2] + "00", "00" * 144):
        with pytest.raises(Mistake, match=r"^credential"):
            Credential.from_json({**kept, "secret": secret})


def test_no_secret_is_printed(authority: Authority, published: GroupParameters, credential: Credential) -> None:
    begun = Enrolment.begin(published, pin=published.digest)
    for one, field in ((authority, "secret_key"), (credential, "secret"), (begun, "secret")):
        secret = one.as_json()[field]
        shown = repr(one) + str(one)
        assert secret not in shown
        assert str(bytes.fromhex(secret)) not in shown


def test_refusals_travel_between_processes() -> None:
    refusals = [TokenRefused(flaw) for flaw in Flaw] + [EnrolmentRefused(flaw) for flaw in Flaw]
    for refusal in [*refusals, UnpinnedGroup("aa", "bb"), GroupTooSmall("friends", 1, 2)]:
        again = pickle.loads(pickle.dumps(refusal))
        assert (type(again), str(again), vars(again)) == (type(refusal), str(refusal), vars(refusal))
        assert isinstance(copy.copy(refusal), Refusal)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Authority.create("Friends", "2026-12", minimum=2), "group"),
        (lambda: Authority.create("friends|x", "2026-12", minimum=2), "group"),
        (lambda: Authority.create("friends", "", minimum=2), "epoch"),
        (lambda: Authority.create("friends", "e" * 65, minimum=2), "epoch"),
        (lambda: Authority.create("friends", "2026-12", minimum=2.0), "minimum"),
        (lambda: Authority.create("friends", "2026-12", minimum=2, scheme="none"), "scheme"),
        (lambda: Context("", "0" * 64, "h0"), "task_id"),
        (lambda: Context("a\nb", "0" * 64, "h0"), "task_id"),
        (lambda: Context("task", "0" * 63, "h0"), "task_digest"),
        (lambda: Context("task", "0" * 62, "h0"), "task_digest"),
        (lambda: Context("task", "A" * 64, "h0"), "task_digest"),
        (lambda: Context("task", "0" * 64, 3), "part"),
        (lambda: HERE.report_digest("text"), "report"),
    ],
)
def test_an_argument_that_cannot_work_is_named(make, argument: str) -> None:
    with pytest.raises(Mistake) as mistake:
        make()
    assert mistake.value.argument == argument


def test_a_report_is_given_by_its_digest(credential: Credential, published: GroupParameters) -> None:
    for wrong in (b"", REPORT.hex(), REPORT + b"\0"):
        with pytest.raises(Mistake, match=r"^report_digest"):
            credential.present(HERE, wrong, published)
        with pytest.raises(Mistake, match=r"^report_digest"):
            verify(published, HERE, wrong, "AQ")
    for wrong_pin in ("", "00", 3):
        with pytest.raises(Mistake, match=r"^pin"):
            published.require(wrong_pin)


def test_a_key_outside_the_subgroup_is_no_key(published: GroupParameters) -> None:
    x = 1
    while True:  # on the curve, and by the size of the cofactor practically never in the group
        raw = bytes([0x80]) + bytes(47) + x.to_bytes(48, "big")
        try:
            point = KeyPoint.from_compressed_bytes_unchecked(raw)
        except ValueError:
            x += 1
            continue
        break
    assert not point.is_in_subgroup()
    with pytest.raises(Mistake, match=r"^public_key.*\(point\)"):
        replace(published, public_key=raw)


# --- the room


def test_the_curve_library_silently_shortens_and_our_door_does_not() -> None:
    points = SUITE.generators(3)
    for sums in (combine, lambda points, values: FixedPoints(points).combine(values)):
        with pytest.raises(ValueError, match="as many"):
            sums(points, [1, 2])


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_the_room_knows_no_network_no_clock_and_no_database() -> None:
    pure = {"__future__", "abc", "base64", "binascii", "collections.abc", "dataclasses", "enum", "functools"}
    pure |= {"hashlib", "re", "secrets", "typing", "py_arkworks_bls12381"}
    for path in ROOM.rglob("*.py"):
        outside = {name for name in imports(path) if not name.startswith(("thebes.tokens", "thebes.privacy.faults"))}
        assert outside <= pure, path
        if path.name != "curve.py":
            assert "py_arkworks_bls12381" not in outside
