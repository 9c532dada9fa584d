import Logging
import Telemetry
import Tokens

extension Setting {
    static let databaseURL = Setting("database_url", .databaseURL, "postgresql:///sluice", isSecret: true)
        .meaning("The PostgreSQL database; any libpq URI.")
    static let hintsDatabaseURL = Setting("hints_database_url", .databaseURL, hint: "the database's", isSecret: true)
        .meaning(
            "The one server of a Citus cluster by which gateways that connect to several tell each other of changes."
        )
    static let directCommits = Setting("direct_commits", .choice(["no", "yes"]), "no")
        .meaning("With yes, pushes go straight to the server of a Citus cluster that has the organization.")
    static let databasePoolSize = Setting("database_pool_size", .number(1...500), "8")
        .meaning("Connections to the database, those of the committers not counted.")
    static let committers = Setting("committers", .number(1...32), "2")
        .meaning(
            "Committers of pushes, and as many of lanes; these, one for heavy pushes, one for events and one for large "
                + "batches of events have a connection each. More are of use where the database has more than two cores, "
                + "and each beyond two lets 1 MiB more of bodies be decoded ahead; more than there are partitions are of none."
        )
    static let statementSeconds = Setting("statement_seconds", .decimal(0.5...60), "2.5")
        .meaning("How long a statement may take in the database; a push waits up to 1.8 times as long, hence 4.5 s.")

    static let publicAddress = Setting("public_address", .address, "127.0.0.1:8080")
        .meaning("Where /v1 is served, to a reverse proxy.")
    static let operationsAddress = Setting("operations_address", .address, "127.0.0.1:8081")
        .meaning("Where health, metrics and /admin are served; never to the outside.")

    static let corsOrigins = Setting("cors_origins", .origins, hint: "none: no web page may ask")
        .meaning("Origins of web apps that may ask, such as https://app.example.org or https://*.example.org.")

    static let jwtSecret = Setting("jwt_secret", .secret(minimumBytes: 16), isSecret: true)
        .meaning("The secret of HS256 tokens; 32 random bytes or more are good.")
    static let jwtKeysFile = Setting("jwt_keys_file", .path)
        .meaning("Public keys (RS256, ES256, EdDSA): PEM blocks or a JWKS document.")
    static let jwtJWKSURL = Setting("jwt_jwks_url", .keySetURL)
        .meaning("Where more public keys are fetched from, a JWKS document; kept fresh.")
    static let jwtIssuersFile = Setting("jwt_issuers_file", .path)
        .meaning("More issuers, each with keys of its own and the organizations it speaks for (JSON).")
    static let jwtIssuer = Setting("jwt_issuer", .text)
        .meaning("What a token's iss must be. Public keys need it; a secret's tokens are taken without.")
    static let jwtAudience = Setting("jwt_audience", .text)
        .meaning("What a token's aud must be or hold. Public keys need it; a secret's tokens are taken without.")
    static let jwtExclusiveKeys = Setting("jwt_exclusive_keys", .choice(["no", "yes"]), "no")
        .meaning("With yes, public keys sign for this gateway alone, so issuer and audience may be unset.")
    static let jwtAudienceClaim = Setting("jwt_audience_claim", .claimPlace, "aud")
        .meaning("The claim that must be or hold the audience; `client_id` for access tokens of Cognito.")
    static let jwtUserClaim = Setting("jwt_user_claim", .claimPlace, "sub")
        .meaning(
            "The claim that says who the user is: a name, or a path such as $.oid or $['https://acme.example/user']."
        )
    static let jwtUserIDs = Setting("jwt_user_ids", .choice(IdentityPlaces.UserForm.allCases.map(\.rawValue)), "either")
        .meaning("Whether it is the user's UUID (`uuid`), a text that is given one (`mapped`), or either, by its look.")
    static let jwtOrganizationClaim = Setting("jwt_organization_claim", .claimPlace, "org")
        .meaning("The claim that says which organization it is: a name, or a path.")
    static let jwtOrganizationKeys = Setting("jwt_organization_keys", .claimPlace)
        .meaning("Instead, an object whose members bear organizations' names, or a list of names: $.organization.")
    static let jwtOrganization = Setting("jwt_organization", .uuid)
        .meaning("Instead, the one organization that all tokens are for, whatever they say.")
    static let jwtOrganizationIDs = Setting(
        "jwt_organization_ids",
        .choice(IdentityPlaces.OrganizationForm.allCases.map(\.rawValue)),
        "either"
    )
    .meaning(
        "Whether the claim is the organization's UUID (`uuid`), one of its `external_ids` (`external`), or either."
    )
    static let jwtLeewaySeconds = Setting("jwt_leeway_seconds", .number(0...600), "0")
        .meaning("How far the clock of the signer of tokens may be off.")
    static let operatorToken = Setting("operator_token", .operatorTokens, hint: "none: /admin is off", isSecret: true)
        .meaning("The bearer token of /admin, better its hash (sluice token --operator); several may be given.")

    static let signingKeyFile = Setting("signing_key_file", .path, hint: "none: no signed tokens")
        .meaning("The private key (PEM; EC P-256, Ed25519 or RSA) of tokens for upstreams.")
    static let masterKeyFile = Setting("master_key_file", .path, hint: "none: nothing is sealed")
        .meaning("Master keys of encryption at rest, a line each; `sluice keys --help` has the form.")
    static let retryBaseSeconds = Setting("retry_base_seconds", .decimal(0.01...3_600), "2")
        .meaning("What is doubled with every failed attempt at an upstream.")
    static let retryCapSeconds = Setting("retry_cap_seconds", .decimal(0.01...86_400), "1800")
        .meaning("The longest pause between attempts.")
    static let leaseSeconds = Setting("lease_seconds", .decimal(2...3_600), "120")
        .meaning("How long a worker may hold a lane without a sign of life.")
    static let maxLanes = Setting("max_lanes", .number(1...100_000), "1024")
        .meaning("Lanes that work at the same time; not those that await a slow upstream's answer.")
    static let maxUpstreamRequests = Setting(
        "max_upstream_requests",
        .number(1...100_000),
        hint: "4 × max_lanes, at least 4,096"
    )
    .meaning("Lanes in all, hence requests to upstreams, that run at the same time.")

    static let webhookAllowedNetworks = Setting(
        "webhook_allowed_networks",
        .networks,
        hint: "none: public addresses only, by https"
    )
    .meaning("Private addresses that webhooks may be sent to, such as 10.1.2.0/24; there by http, too.")
    static let webhookSigningKey = Setting(
        "webhook_signing_key",
        .webhookKey,
        hint: "none: v1 signatures only",
        isSecret: true
    )
    .meaning("The key of webhooks' v1a signatures; `sluice webhooks create-key` makes one.")
    static let maxWebhooks = Setting("max_webhooks", .number(1...1_000), "32")
        .meaning("Webhooks that are sent to at the same time; up to four times as many while some await an answer.")
    static let maxReplications = Setting("max_replications", .number(1...1_000), "32")
        .meaning("Databases of organizations that are followed at the same time.")
    static let maxPolls = Setting("max_polls", .number(1...1_000), "16")
        .meaning("Sources that are polled at the same time; up to four times as many while some await an answer.")

    static let retentionSucceededDays = Setting("retention_succeeded_days", .decimal(0.01...36_500), "7")
        .meaning("Days after which payloads of final mutations go.")
    static let retentionDays = Setting("retention_days", .decimal(0.01...36_500), "30")
        .meaning("Days after which records, tombstones and unsettled mutations go.")
    static let retentionAuditDays = Setting("retention_audit_days", .decimal(0.01...36_500), "365")
        .meaning("Days that what operators did is kept: the audit.")
    static let retentionIntervalSeconds = Setting("retention_interval_seconds", .decimal(1...604_800), "3600")
        .meaning("Seconds from the end of one run of retention to the next.")

    static let logLevel = Setting("log_level", .choice(Logger.Level.allCases.map(\.rawValue)), "info")
        .meaning("The least level that is logged.")
    static let logFormat = Setting(
        "log_format",
        .choice(LogFormat.allCases.map(\.rawValue)),
        hint: "text on a terminal, else json"
    )
    .meaning("How a log line looks.")
    static let metricsOrganizations = Setting("metrics_organizations", .number(0...100), "0")
        .meaning("Organizations that metrics of waiting lanes name, by their ids; 0 names none.")

    static let maxMutations = Setting("max_mutations", .number(1...10_000), "500")
        .meaning("Mutations in a push.")
    static let maxBodyBytes = Setting("max_body_bytes", .number(1_024...67_108_864), "4194304")
        .meaning("Bytes of a push.")
    static let maxPayloadBytes = Setting("max_payload_bytes", .number(256...16_777_216), "262144")
        .meaning("Bytes of one mutation's payload.")
    static let maxConnections = Setting("max_connections", .number(1...1_000_000), "10000")
        .meaning("Open connections of the public listener.")
    static let maxBodyBytesInFlight = Setting("max_body_bytes_in_flight", .number(1_024...8_589_934_592), "67108864")
        .meaning("Bytes of request bodies held at the same time; beyond an organization's part, 503.")
    static let maxAnswerBytesInFlight = Setting(
        "max_answer_bytes_in_flight",
        .number(4_194_304...8_589_934_592),
        "67108864"
    )
    .meaning("Bytes of answers held at the same time; beyond an organization's part, 503.")
    static let maxDevicesPerUser = Setting("max_devices_per_user", .number(1...1_000_000), "1000")
        .meaning("Devices that a user may have; one more is refused.")

    /// Every setting, in the order of the help text.
    static let all = [
        databaseURL, hintsDatabaseURL, directCommits, databasePoolSize, committers, statementSeconds,
        publicAddress, operationsAddress, corsOrigins,
        jwtSecret, jwtKeysFile, jwtJWKSURL, jwtIssuersFile,
        jwtIssuer, jwtAudience, jwtAudienceClaim, jwtExclusiveKeys, jwtUserClaim, jwtUserIDs,
        jwtOrganizationClaim, jwtOrganizationKeys, jwtOrganization, jwtOrganizationIDs, jwtLeewaySeconds,
        operatorToken, signingKeyFile, masterKeyFile,
        retryBaseSeconds, retryCapSeconds, leaseSeconds, maxLanes, maxUpstreamRequests,
        webhookAllowedNetworks, webhookSigningKey, maxWebhooks, maxReplications, maxPolls,
        retentionSucceededDays, retentionDays, retentionAuditDays, retentionIntervalSeconds,
        logLevel, logFormat, metricsOrganizations,
        maxMutations, maxBodyBytes, maxPayloadBytes, maxConnections, maxBodyBytesInFlight,
        maxAnswerBytesInFlight, maxDevicesPerUser,
    ]

    /// The name of the variable that names a configuration file.
    static let configFile = "config_file"

    /// All known names.
    static let knownNames = all.flatMap { [$0.name] + ($0.fileName.map { [$0] } ?? []) } + [configFile]
}
