import Logging

extension Setting {
    static let databaseURL = Setting(
        name: "database_url",
        form: .databaseURL,
        fallback: "postgresql:///sluice",
        meaning: "The PostgreSQL database; any libpq URI.",
        isSecret: true
    )
    static let databasePoolSize = Setting(
        name: "database_pool_size",
        form: .number(1...500),
        fallback: "8",
        meaning: "Connections to the database, those of the committers not counted."
    )
    static let committers = Setting(
        name: "committers",
        form: .number(1...32),
        fallback: "3",
        meaning: "Committers of pushes, and as many of lanes; these and one for heavy pushes have a connection each."
    )
    static let statementSeconds = Setting(
        name: "statement_seconds",
        form: .decimal(0.5...60),
        fallback: "2.5",
        meaning: "How long a statement may take in the database; a push waits up to 1.8 times as long, hence 4.5 s."
    )

    static let publicAddress = Setting(
        name: "public_address",
        form: .address,
        fallback: "127.0.0.1:8080",
        meaning: "Where /v1 is served, to a reverse proxy."
    )
    static let operationsAddress = Setting(
        name: "operations_address",
        form: .address,
        fallback: "127.0.0.1:8081",
        meaning: "Where health, metrics and /admin are served; never to the outside."
    )

    static let jwtSecret = Setting(
        name: "jwt_secret",
        form: .secret(minimumBytes: 16),
        meaning: "The secret of HS256 tokens; 32 random bytes or more are good.",
        isSecret: true
    )
    static let jwtKeysFile = Setting(
        name: "jwt_keys_file",
        form: .path,
        meaning: "Public keys (RS256, ES256, EdDSA): PEM blocks or a JWKS document."
    )
    static let jwtJWKSURL = Setting(
        name: "jwt_jwks_url",
        form: .keySetURL,
        meaning: "Where more public keys are fetched from, a JWKS document; kept fresh."
    )
    static let jwtIssuersFile = Setting(
        name: "jwt_issuers_file",
        form: .path,
        meaning: "More issuers, each with keys of its own and the organizations it speaks for (JSON)."
    )
    static let jwtIssuer = Setting(
        name: "jwt_issuer",
        form: .text,
        meaning: "What a token's iss must be. Public keys need it; a secret's tokens are taken without."
    )
    static let jwtAudience = Setting(
        name: "jwt_audience",
        form: .text,
        meaning: "What a token's aud must be or hold. Public keys need it; a secret's tokens are taken without."
    )
    static let jwtExclusiveKeys = Setting(
        name: "jwt_exclusive_keys",
        form: .choice(["no", "yes"]),
        fallback: "no",
        meaning: "With yes, public keys sign for this gateway alone, so issuer and audience may be unset."
    )
    static let jwtUserClaim = Setting(
        name: "jwt_user_claim",
        form: .text,
        fallback: "sub",
        meaning: "The claim that holds the user's UUID."
    )
    static let jwtOrganizationClaim = Setting(
        name: "jwt_organization_claim",
        form: .text,
        fallback: "org",
        meaning: "The claim that holds the organization's UUID."
    )
    static let jwtLeewaySeconds = Setting(
        name: "jwt_leeway_seconds",
        form: .number(0...600),
        fallback: "0",
        meaning: "How far the clock of the signer of tokens may be off."
    )
    static let operatorToken = Setting(
        name: "operator_token",
        form: .operatorTokens,
        fallbackHint: "none: /admin is off",
        meaning: "The bearer token of /admin, better its hash (sluice token --operator); several may be given.",
        isSecret: true
    )

    static let signingKeyFile = Setting(
        name: "signing_key_file",
        form: .path,
        fallbackHint: "none: no signed tokens",
        meaning: "The private key (PEM; EC P-256, Ed25519 or RSA) of tokens for upstreams."
    )
    static let masterKeyFile = Setting(
        name: "master_key_file",
        form: .path,
        fallbackHint: "none: nothing is sealed",
        meaning: "Master keys of encryption at rest, a line each; `sluice keys --help` has the form."
    )
    static let retryBaseSeconds = Setting(
        name: "retry_base_seconds",
        form: .decimal(0.01...3_600),
        fallback: "2",
        meaning: "What is doubled with every failed attempt at an upstream."
    )
    static let retryCapSeconds = Setting(
        name: "retry_cap_seconds",
        form: .decimal(0.01...86_400),
        fallback: "1800",
        meaning: "The longest pause between attempts."
    )
    static let leaseSeconds = Setting(
        name: "lease_seconds",
        form: .decimal(2...3_600),
        fallback: "120",
        meaning: "How long a worker may hold a lane without a sign of life."
    )
    static let maxLanes = Setting(
        name: "max_lanes",
        form: .number(1...100_000),
        fallback: "1024",
        meaning: "Lanes, hence requests to upstreams, that run at the same time."
    )

    static let retentionSucceededDays = Setting(
        name: "retention_succeeded_days",
        form: .decimal(0.01...36_500),
        fallback: "7",
        meaning: "Days after which payloads of final mutations go."
    )
    static let retentionDays = Setting(
        name: "retention_days",
        form: .decimal(0.01...36_500),
        fallback: "30",
        meaning: "Days after which records, tombstones and unsettled mutations go."
    )
    static let retentionIntervalSeconds = Setting(
        name: "retention_interval_seconds",
        form: .decimal(1...604_800),
        fallback: "3600",
        meaning: "Seconds from the end of one run of retention to the next."
    )

    static let logLevel = Setting(
        name: "log_level",
        form: .choice(Logger.Level.allCases.map(\.rawValue)),
        fallback: "info",
        meaning: "The least level that is logged."
    )
    static let logFormat = Setting(
        name: "log_format",
        form: .choice(LogFormat.allCases.map(\.rawValue)),
        fallbackHint: "text on a terminal, else json",
        meaning: "How a log line looks."
    )
    static let metricsOrganizations = Setting(
        name: "metrics_organizations",
        form: .number(0...100),
        fallback: "0",
        meaning: "Organizations that metrics of waiting lanes name, by their ids; 0 names none."
    )

    static let maxMutations = Setting(
        name: "max_mutations",
        form: .number(1...10_000),
        fallback: "500",
        meaning: "Mutations in a push."
    )
    static let maxBodyBytes = Setting(
        name: "max_body_bytes",
        form: .number(1_024...67_108_864),
        fallback: "4194304",
        meaning: "Bytes of a push."
    )
    static let maxPayloadBytes = Setting(
        name: "max_payload_bytes",
        form: .number(256...16_777_216),
        fallback: "262144",
        meaning: "Bytes of one mutation's payload."
    )
    static let maxConnections = Setting(
        name: "max_connections",
        form: .number(1...1_000_000),
        fallback: "10000",
        meaning: "Open connections of the public listener."
    )
    static let maxBodyBytesInFlight = Setting(
        name: "max_body_bytes_in_flight",
        form: .number(1_024...8_589_934_592),
        fallback: "67108864",
        meaning: "Bytes of request bodies held at the same time; beyond an organization's part, 503."
    )
    static let maxAnswerBytesInFlight = Setting(
        name: "max_answer_bytes_in_flight",
        form: .number(4_194_304...8_589_934_592),
        fallback: "67108864",
        meaning: "Bytes of answers held at the same time; beyond an organization's part, 503."
    )
    static let maxDevicesPerUser = Setting(
        name: "max_devices_per_user",
        form: .number(1...1_000_000),
        fallback: "1000",
        meaning: "Devices that a user may have; one more is refused."
    )

    /// Every setting, in the order of the help text.
    static let all = [
        databaseURL, databasePoolSize, committers, statementSeconds,
        publicAddress, operationsAddress,
        jwtSecret, jwtKeysFile, jwtJWKSURL, jwtIssuersFile,
        jwtIssuer, jwtAudience, jwtExclusiveKeys, jwtUserClaim, jwtOrganizationClaim, jwtLeewaySeconds,
        operatorToken, signingKeyFile, masterKeyFile,
        retryBaseSeconds, retryCapSeconds, leaseSeconds, maxLanes,
        retentionSucceededDays, retentionDays, retentionIntervalSeconds,
        logLevel, logFormat, metricsOrganizations,
        maxMutations, maxBodyBytes, maxPayloadBytes, maxConnections, maxBodyBytesInFlight,
        maxAnswerBytesInFlight, maxDevicesPerUser,
    ]

    /// The name of the variable that names a configuration file.
    static let configFile = "config_file"

    /// Every name that means something.
    static let knownNames = all.flatMap { [$0.name] + ($0.fileName.map { [$0] } ?? []) } + [configFile]
}
