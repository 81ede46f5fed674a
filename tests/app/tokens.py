"""Made-up secrets in the shapes that real ones have; whatever shows text to people must hide each of them."""

SECRETS = {
    "github": "ghp_" + "a1B2" * 9,
    "github installation": "ghs_" + "Zz09" * 9,
    "github new installation": "ghs_12345_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2lnbmF0dXJl",
    "github fine grained": "github_pat_" + "11AAAAAAA0" * 5,
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "slack": "xoxb-" + "123456789012-abcdefABCDEF",
    "slack hook": "hooks.slack.com/services/" + "T000/B000/XXXXXXXX",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "openai": "sk-" + "proj-abcdefghijklmnop1234",
    "key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    "cut key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA",
}
