"""Holds manifests of `bireme submit --k8s` against the schemas of Kubernetes and of JobSet.

The schemas come in packages (`kubernetes-validate` has those of every release, strict about unknown
fields; `kubeflow-trainer-api` has models of JobSet), so no cluster and no network is needed.
Beside the schemas, what they cannot say: that names which refer to each other do.

usage: check.py MANIFEST…   (`-` is standard input)
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

# The schemas before call `onPodConditions` required in every rule, which the servers never did.
FIRST = [1, 29, 0]


def main(paths: list[str]) -> int:
    """Checks each file; returns 1 if one is wrong."""
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    versions = bundled_versions()
    wrong = 0
    for path in paths:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
        documents = list(yaml.safe_load_all(text))
        problems = [
            f"{document.get('kind')}: {problem}"
            for document in documents
            for problem in check_document(document, versions)
        ]
        problems += check_references(documents)
        kinds = ", ".join(document["kind"] for document in documents)
        print(f"{path}: {kinds}: {'; '.join(problems) if problems else 'valid'}")
        wrong |= bool(problems)
    print(f"schemas of Kubernetes {versions[0]} to {versions[-1]}")
    return int(wrong)


def bundled_versions() -> list[str]:
    """The releases of which the package has good schemas, the oldest first."""
    folder = resources.files(kubernetes_validate) / "kubernetes-json-schema"
    names = [entry.name for entry in folder.iterdir() if entry.name.endswith("-local-strict")]
    texts = [name.removeprefix("v").removesuffix("-local-strict") for name in names]
    numbers = sorted([int(part) for part in text.split(".")] for text in texts)
    return [".".join(map(str, version)) for version in numbers if version >= FIRST]


def check_document(document: dict[str, Any], versions: list[str]) -> list[str]:
    """What is wrong with one document."""
    if document["kind"] == "JobSet":
        return check_jobset(document, versions)
    problems = []
    for version in versions:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            problems.append(f"{version}: {error.message} at {error.path}")
    return problems


def check_jobset(document: dict[str, Any], versions: list[str]) -> list[str]:
    """A JobSet by its models, which drop what they do not know; its Jobs by their own schema."""
    kept = JobsetV1alpha2JobSet.from_dict(document).to_dict()
    problems = [f"unknown or lost: {path}" for path in lost(document["spec"], kept["spec"], "spec")]
    for replicated in document["spec"]["replicatedJobs"]:
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": replicated["name"]},
            "spec": replicated["template"]["spec"],
        }
        problems += check_document(job, versions)
    return problems


def lost(written: Any, kept: Any, path: str) -> list[str]:
    """The places that are in `written` but not, or not the same, in `kept`."""
    if isinstance(written, dict) and isinstance(kept, dict):
        return [
            place
            for key, value in written.items()
            for place in (
                lost(value, kept[key], f"{path}.{key}") if key in kept else [f"{path}.{key}"]
            )
        ]
    if isinstance(written, list) and isinstance(kept, list) and len(written) == len(kept):
        return [
            place
            for at, pair in enumerate(zip(written, kept))
            for place in lost(*pair, f"{path}[{at}]")
        ]
    return [] if str(written) == str(kept) else [path]


def check_references(documents: list[dict[str, Any]]) -> list[str]:
    """Services, secrets and endpoints that are named must be there."""
    named = {(document["kind"], document["metadata"]["name"]) for document in documents}
    hosts, used, problems = set(), set(), []
    for document in documents:
        for name, spec in jobs_of(document):
            pod = spec["template"]["spec"]
            domain = pod["subdomain"]
            hosts |= {f"{name}-{index}.{domain}" for index in range(spec["completions"])}
            if document["kind"] == "Job" and ("Service", domain) not in named:
                problems.append(f"{name}: no Service `{domain}`")
            used |= endpoints(pod["containers"][0])
    missing = {endpoint.rpartition(":")[0] for endpoint in used} - hosts
    return problems + [f"no pod is called `{host}`" for host in sorted(missing)]


def jobs_of(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The Jobs of a document, by the names that their pods are called after."""
    if document["kind"] == "Job":
        return [(document["metadata"]["name"], document["spec"])]
    if document["kind"] == "JobSet":
        name = document["metadata"]["name"]
        return [
            (f"{name}-{replicated['name']}-0", replicated["template"]["spec"])
            for replicated in document["spec"]["replicatedJobs"]
        ]
    return []


def endpoints(container: dict[str, Any]) -> set[str]:
    """The endpoints in a container's variables and command."""
    lists = ("PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS")
    found = {
        endpoint
        for variable in container["env"]
        if variable["name"] in lists
        for endpoint in variable["value"].split(",")
    }
    masters = [arg for arg in container["command"] if arg.startswith("--master=")]
    return found | {master.removeprefix("--master=") for master in masters}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
