"""The tokens of users."""

import base64
import hashlib
import hmac
import json
import time


def token(secret: str, organization: str, user: str) -> str:
    """An HS256 JWT that lasts longer than any run."""
    claims = {"sub": user, "org": organization, "exp": int(time.time()) + 86_400}
    signed = f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{_encoded(claims)}"
    code = hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{_base64(code)}"


def _encoded(value: dict) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
