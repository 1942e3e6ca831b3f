"""What is kept for a real control plane beside its binaries."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelplane.errors import PermanentError
from modelplane.kube.kubeconfig import Kubeconfig
from modelplane.local.kubernetes import BINARIES, ControlPlane, Ports


def control_plane(folder: Path) -> ControlPlane:
    binaries = folder / "binaries"
    binaries.mkdir()
    for name in BINARIES:
        (binaries / name).touch()
    plane = ControlPlane(binaries, folder / "plane", Ports(*range(5)))
    plane.prepare()
    return plane


def test_the_kubeconfig_waits_for_the_whole_certificate_of_the_api_server(tmp_path: Path) -> None:
    """kube-apiserver writes the certificate in place and the key after it; read in between it once was empty, for good."""
    plane = control_plane(tmp_path)
    certificates = plane.root / "certificates"
    certificates.mkdir()
    assert not plane.write_kubeconfig()
    (certificates / "apiserver.crt").touch()
    assert not plane.write_kubeconfig(), "opened, and nothing is in it yet"
    (certificates / "apiserver.crt").write_text("the certificate")
    (certificates / "apiserver.key").touch()
    assert plane.write_kubeconfig()
    assert Kubeconfig.load(plane.kubeconfig).ca_data == "the certificate"


def test_a_folder_without_all_binaries_is_refused_with_how_to_build_them(tmp_path: Path) -> None:
    (tmp_path / "etcd").touch()
    with pytest.raises(PermanentError, match=r"lacks kube-apiserver, .*make kubernetes"):
        ControlPlane(tmp_path, tmp_path / "plane", Ports(*range(5)))
