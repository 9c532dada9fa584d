"""Checks docker/compose.yml as far as possible without Docker. Prints the errors; prints nothing if it is valid."""

import sys
from pathlib import Path

import yaml

KNOWN = {
    "image", "build", "restart", "stop_grace_period", "stop_signal", "read_only", "cap_drop", "security_opt",
    "environment", "secrets", "ulimits", "mem_limit", "depends_on", "logging", "command", "entrypoint", "volumes",
    "networks", "shm_size", "healthcheck", "ports", "user", "tmpfs",
}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def problems(folder: Path) -> list[str]:
    compose = yaml.safe_load((folder / "compose.yml").read_text())
    services = compose["services"]
    found = []

    def need(condition: bool, text: str) -> None:
        if not condition:
            found.append(text)

    used: dict[str, set[str]] = {"secrets": set(), "networks": set(), "volumes": set()}
    for name, service in services.items():
        need(not set(service) - KNOWN, f"{name}: unknown members {set(service) - KNOWN}")
        need("mem_limit" in service, f"{name}: no limit of memory")
        need(service.get("cap_drop") == ["ALL"] or name == "postgres", f"{name}: keeps capabilities")
        need("healthcheck" in service or name.startswith("gateway"), f"{name}: no health check")
        need("logging" in service, f"{name}: its log grows without bound")
        build = service.get("build")
        if build:
            need((folder / build["context"] / build["dockerfile"]).is_file(), f"{name}: no {build['dockerfile']}")
        else:
            image = service["image"].rsplit(":", 1)
            need(len(image) == 2 and image[1] != "latest", f"{name}: its image has no version")
        for other, how in service.get("depends_on", {}).items():
            need(other in services, f"{name}: depends on {other}, which is not there")
            need(how.get("condition") in CONDITIONS, f"{name}: unknown condition for {other}")
        used["secrets"] |= set(service.get("secrets", []))
        used["networks"] |= set(service.get("networks", []))
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                need((folder / source).exists(), f"{name}: mounts {source}, which is not there")
                need(volume.endswith(":ro"), f"{name}: may write to {source}")
            else:
                used["volumes"].add(source)
        for variable, value in (service.get("environment") or {}).items():
            need(isinstance(value, str), f"{name}: {variable} is no string")
            if str(value).startswith("/run/secrets/"):
                secret = value.removeprefix("/run/secrets/")
                need(secret in service.get("secrets", []), f"{name}: {variable} names a secret it does not have")
        ports = service.get("ports", [])
        public = [port for port in ports if not port.startswith("127.0.0.1:")]
        need(not public or name == "nginx", f"{name}: reached from outside by {public}")
    for kind, names in used.items():
        defined = set(compose[kind])
        need(names == defined, f"{kind}: {names ^ defined} are defined or used, not both")
    gateways = [name for name in services if name.startswith("gateway")]
    need(len(gateways) == 2, "there are not two gateways")
    for gateway in gateways:
        for file in ("nginx/nginx.conf", "caddy/Caddyfile"):
            need(f"{gateway}:8080" in (folder / file).read_text(), f"{file} does not know {gateway}")
        need(f"{gateway}:8081" in (folder / "prometheus/prometheus.yml").read_text(), f"{gateway} is not scraped")
        need(not services[gateway].get("ports"), f"{gateway} is published")
        need(services[gateway]["environment"].get("SLUICE_DATABASE_URL") is None, f"{gateway} shows its password")
    for file in folder.glob("**/*.yml"):
        list(yaml.safe_load_all(file.read_text()))
    return found


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print("\n".join(wrong), end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)
