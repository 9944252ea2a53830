"""deploy/kubernetes: manifests that Kubernetes takes, with commands that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cli.main import main
from settings import PREFIX, Settings
from tests.programs import demand_program
from tests.servers import ROOT, run_to_end

Manifest = dict[str, Any]

#: KEDA's own kinds are in no schema of Kubernetes.
_OF_KEDA = {"ScaledObject", "TriggerAuthentication"}


def build(root: Path, overlay: str) -> list[Manifest]:
    """Return what an overlay of the copy *root* applies."""
    folder = root / "overlays" / overlay
    built = run_to_end([demand_program("kubectl"), "kustomize", folder])
    assert built.returncode == 0, built.stderr
    return [*yaml.safe_load_all(built.stdout)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy with the secrets that the documented command makes."""
    root = tmp_path_factory.mktemp("kubernetes") / "kubernetes"
    shutil.copytree(
        ROOT / "deploy/kubernetes", root, ignore=shutil.ignore_patterns("secrets")
    )
    secrets = root / "overlays/production/secrets"
    subprocess.run(["sh", ROOT / "deploy/make-secrets.sh", secrets], check=True)
    return root


@pytest.fixture(scope="module", params=["production", "sqlite", "keda"])
def manifests(root: Path, request: pytest.FixtureRequest) -> list[Manifest]:
    """Give what each overlay applies; KEDA is an option of production."""
    if request.param != "keda":
        return build(root, request.param)
    kustomization = root / "overlays/production/kustomization.yaml"
    text = kustomization.read_text()
    kustomization.write_text(
        text.replace("components: []", "components: [../../components/keda]")
    )
    try:
        return build(root, "production")
    finally:
        kustomization.write_text(text)


def find_programs(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Return the pods' specifications, by the names of what runs them."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in manifests
        if each["kind"] in {"Deployment", "Job"}
    }


def test_manifests_fit_the_schemas(manifests: list[Manifest]) -> None:
    """Kubernetes' own, with nothing that it does not know."""
    for each in manifests:
        if each["kind"] not in _OF_KEDA:
            kubernetes_validate.validate(each, "1.37", strict=True)


def test_programs_have_few_rights(manifests: list[Manifest]) -> None:
    """No root, no token, nothing writable but the workspace and /tmp; bounds."""
    for pod in find_programs(manifests).values():
        (container,) = pod["containers"]
        context = container["securityContext"]

        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        assert context["readOnlyRootFilesystem"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} <= container["resources"].keys()


def test_commands_and_settings_exist(
    manifests: list[Manifest], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command has its options, and each variable is a setting."""
    variables: set[str] = set()
    for pod in find_programs(manifests).values():
        (container,) = pod["containers"]
        program, command, *arguments = container["command"]
        assert (program, main([command, "--help"])) == ("minutehand", 0)
        told = capsys.readouterr().out
        assert [each for each in arguments if each[0] == "-" and each not in told] == []
        variables |= {each["name"] for each in container["env"]}
    for each in manifests:
        if each["kind"] == "ConfigMap":
            variables |= each["data"].keys()

    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    assert {name.removesuffix("_FILE") for name in variables} <= known


def test_secrets_are_files_that_are_there(manifests: list[Manifest]) -> None:
    """Each setting that names a file names one of the secret."""
    (secret,) = (each for each in manifests if each["kind"] == "Secret")
    files = set(re.findall(r"/run/secrets/minutehand/(\w+)", yaml.dump(manifests)))

    assert files == secret["data"].keys()


def test_what_lasts_is_probed_and_can_be_drained(manifests: list[Manifest]) -> None:
    """Two of each on one database, with a budget; one process alone has none."""
    budgets = {
        each["metadata"]["name"]
        for each in manifests
        if each["kind"] == "PodDisruptionBudget"
    }
    for each in manifests:
        if each["kind"] == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            assert container["livenessProbe"]
            replicas = each["spec"].get("replicas")
            assert replicas == 1 or each["metadata"]["name"] in budgets
