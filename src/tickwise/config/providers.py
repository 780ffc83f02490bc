"""The settings of further providers of secrets. `Settings` has them as its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tickwise.config.facts import declared_field


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `SecretProviderSettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


@dataclass(frozen=True, kw_only=True)
class SecretProviderSettings:
    """The places beside our own store that executors take secrets from (`docs/how-to/secrets-from-elsewhere.md`)."""

    secrets_files: Path | None = _setting(
        None,
        "A folder of executors with a folder for each namespace, whose files are its secrets, as Kubernetes and Docker "
        "mount them: `secret:files:NAME` is the content of `NAMESPACE/NAME`.",
    )
    secrets_environment: tuple[str, ...] = _setting(
        (),
        "The variables of executors that are secrets, as `NAMESPACE=PREFIX`: with `billing=BILLING_`, "
        "`secret:environment:DB` of the namespace billing is the variable `BILLING_DB`.",
    )
    secrets_vault_url: str | None = _setting(
        None,
        "The address of a Vault or OpenBao, such as `https://vault.example.com:8200`: `secret:vault:app/db#password` "
        "is the field `password` of the secret `app/db` in its KV store, version 2.",
        schemes=("http", "https"),
    )
    secrets_vault_paths: tuple[str, ...] = _setting(
        (),
        "The path that each namespace may read, as `NAMESPACE=MOUNT/PATH`, such as `billing=secret/billing`. "
        "`*=secret/tickwise` is `secret/tickwise/NAMESPACE` for each namespace that is not named.",
    )
    secrets_vault_auth: str = _setting(
        "token",
        "The way by which executors sign in to Vault: `token`, the file `secrets_vault_token_file`; `approle`, by "
        "`secrets_vault_role` and `secrets_vault_secret_id_file`; `identity`, by an identity token of the namespace "
        "with JWT sign-in, so that nothing is stored.",
        choices=("token", "approle", "identity"),
    )
    secrets_vault_mount: str | None = _setting(
        None, "The path of the sign-in in Vault. Unset: `approle` or `jwt`, by `secrets_vault_auth`."
    )
    secrets_vault_role: str | None = _setting(
        None, "The role of the sign-in: the role id of an AppRole, or the name of a role for JWT."
    )
    secrets_vault_audience: str = _setting(
        "vault", "The audience of the identity token that `secrets_vault_auth` `identity` signs in with."
    )
    secrets_vault_token_file: Path | None = _setting(
        None, "A file with the token for Vault, read again for each sign-in. Vault Agent keeps such a file."
    )
    secrets_vault_secret_id_file: Path | None = _setting(None, "A file with the secret id of the AppRole.")
    secrets_vault_namespace: str | None = _setting(
        None, "The namespace of Vault Enterprise, HCP or OpenBao that everything is in."
    )
    secrets_vault_ca_file: Path | None = _setting(
        None, "The authorities that Vault's certificate is checked with, PEM. Unset: those of the system."
    )
    secrets_kubernetes: tuple[str, ...] = _setting(
        (),
        "The namespaces of Kubernetes whose secrets a namespace may read, as `NAMESPACE=KUBERNETES_NAMESPACE`: "
        "`secret:kubernetes:db#password` is the key `password` of the secret `db` there. Executors ask the cluster "
        "that they run in, with the service account of their pod.",
    )
    secrets_kubernetes_url: str | None = _setting(
        None,
        "The address of Kubernetes' API. Unset: the one that each pod is told.",
        schemes=("http", "https"),
    )
    secrets_kubernetes_account: Path = _setting(
        Path("/var/run/secrets/kubernetes.io/serviceaccount"),
        "The folder with the token and the authority (`ca.crt`) of the pod's service account.",
    )
    secrets_seconds: float = _setting(
        5.0, "The time limit for the answer of Vault or Kubernetes to one question.", least=0.1, most=60
    )
    secrets_kept_seconds: float = _setting(
        15.0,
        "The time for which an executor keeps a value that Vault or Kubernetes gave. 0: it keeps none.",
        least=0,
        most=3_600,
    )
