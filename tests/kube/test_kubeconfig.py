"""Which kubeconfigs are taken, and which are refused with the field's name."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.errors import InvalidKubeconfig
from modelplane.kube import Kubeconfig


def document(*, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/", **(cluster or {})}}],
            "users": [{"name": "u", "user": {"token": "t", **(user or {})}}],
            "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
        }
    )


def test_inline_data_is_taken_from_a_secret() -> None:
    data = base64.b64encode(b"PEM").decode()
    config = Kubeconfig.from_secret(document(cluster={"certificate-authority-data": data}))
    assert config == Kubeconfig(server="https://127.0.0.1:6443", ca_data="PEM", token="t", namespace="ml")


@pytest.mark.parametrize(
    ("section", "field", "value", "reason"),
    [
        ("user", "exec", {"command": "aws"}, "it would run a program in our process's name"),
        ("user", "auth-provider", {"name": "gcp"}, "as exec"),
        ("user", "tokenFile", "/etc/shadow", "it would read our disk"),
        ("user", "client-key", "/etc/key", "it would read our disk"),
        ("user", "client-certificate", "/etc/crt", "it would read our disk"),
        ("cluster", "certificate-authority", "/etc/ca", "it would read our disk"),
        ("cluster", "insecure-skip-tls-verify", True, "anybody could answer and collect the token"),
        ("cluster", "proxy-url", "http://10.0.0.1", "it would send us through a host of the tenant's choice"),
    ],
)
def test_a_secret_may_not(section: str, field: str, value: object, reason: str) -> None:
    text = document(**{section: {field: value}})
    with pytest.raises(InvalidKubeconfig, match=field) as caught:
        Kubeconfig.from_secret(text)
    assert caught.value.field == f"{section}.{field}", reason


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", ""),
        ("just words", "clusters"),
        ("{clusters: [{name: a, cluster: {server: x}}]}", "current-context"),
        (document(cluster={"server": "ftp://x"}), "cluster.server"),
        (document(cluster={"certificate-authority-data": "%%%"}), "cluster.certificate-authority-data"),
        (document().replace("current-context: main", "current-context: other"), "contexts"),
    ],
)
def test_what_cannot_be_used_names_the_field_and_never_the_token(text: str, field: str) -> None:
    with pytest.raises(InvalidKubeconfig) as caught:
        Kubeconfig.from_secret(text)
    assert caught.value.field == field
    assert "token: t" not in str(caught.value)


def test_a_file_of_the_user_may_name_other_files_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA")
    (tmp_path / "config").write_text(document(cluster={"certificate-authority": "ca.pem"}, user={"tokenFile": "token"}))
    config = Kubeconfig.load(tmp_path / "config")
    assert config.ca_data == "CA"
    assert config.token_file == str(tmp_path / "token")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidKubeconfig, match="nothing-here"):
        Kubeconfig.load(tmp_path / "nothing-here")


def test_a_pod_uses_its_mounted_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "namespace").write_text("modelplane-system")
    config = Kubeconfig.in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    assert config.server == "https://[fd00::1]:443"
    assert (config.token_file, config.namespace) == (str(tmp_path / "token"), "modelplane-system")
    with pytest.raises(InvalidKubeconfig, match="--kubeconfig"):
        Kubeconfig.in_cluster({}, tmp_path)


def test_of_several_files_the_first_that_has_a_name_counts(tmp_path: Path) -> None:
    """As kubectl merges them, each with its own folder for relative names."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one/ca.pem").write_text("FIRST")
    (tmp_path / "one/config").write_text(
        yaml.safe_dump(
            {"clusters": [{"name": "c", "cluster": {"server": "https://one", "certificate-authority": "ca.pem"}}]}
        )
    )
    (tmp_path / "two").write_text(document(user={"tokenFile": "token"}))
    (tmp_path / "empty").write_text("")
    config = Kubeconfig.listed(f"{tmp_path}/none:{tmp_path}/empty:{tmp_path}/one/config::{tmp_path}/two")
    assert (config.server, config.ca_data, config.namespace) == ("https://one", "FIRST", "ml")
    assert config.token_file == str(tmp_path / "token")
    assert Kubeconfig.listed(f"{tmp_path}/two:").server == "https://127.0.0.1:6443"


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ("/none:/neither", r"KUBECONFIG \(/none:/neither\): none of these files is there"),
        ("/none", "kubeconfig /none cannot be read"),
        (":", "cannot be read"),
    ],
)
def test_files_that_are_not_there_are_named_where_none_is(paths: str, words: str) -> None:
    with pytest.raises(InvalidKubeconfig, match=words):
        Kubeconfig.listed(paths)
