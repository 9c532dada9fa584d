import Logging
import SyncModel
import Telemetry
import Tokens

extension Setting {
    package static let databaseURL = Setting("database_url", .databaseURL, "postgresql:///sluice", isSecret: true)
        .meaning("URI of the PostgreSQL database, in any form that libpq accepts.")
    package static let hintsDatabaseURL = Setting(
        "hints_database_url",
        .databaseURL,
        hint: "SLUICE_DATABASE_URL",
        isSecret: true
    )
    .meaning(
        "On a Citus cluster, if gateways connect to different servers: the server that all of them use to notify each "
            + "other of changes."
    )
    package static let directCommits = Setting("direct_commits", .choice(["no", "yes"]), "no")
        .meaning(
            "On a Citus cluster: `yes` commits pushes directly on the server that stores the organization, with as "
                + "many connections to each server as the committers need. Use it if the coordinator limits the rate of "
                + "pushes (docs/citus.md)."
        )
    package static let databasePoolSize = Setting("database_pool_size", .number(1...500), "8")
        .meaning(
            "Connections of the pool. A gateway also needs the connections of the committers, and one for "
                + "notifications: 16 in total by default, 17 on a Citus cluster."
        )
    package static let committers = Setting("committers", .number(1...32), "2")
        .meaning(
            "Number n of tasks that commit pushes; n further tasks commit the results of lanes. Committers need 2n + 3 "
                + "connections: 2n for these tasks, and one each for heavy pushes, events, and large batches of events. "
                + "Raise the number if the database has more than two cores, but not above the number of partitions. "
                + "Bodies that are being decoded or committed may take n MiB of memory, but at least 2 MiB."
        )
    static let statementSeconds = Setting("statement_seconds", .decimal(0.5...60), "2.5")
        .meaning("Maximum duration of a database statement. A push waits up to 1.8 times as long: 4.5 s by default.")

    package static let publicAddress = Setting("public_address", .address, "127.0.0.1:8080")
        .meaning(
            "Address of the public listener for /v1, and for /openapi.json and /.well-known/jwks.json, which need no "
                + "token. Put a reverse proxy that terminates TLS in front of it."
        )
    package static let operationsAddress = Setting("operations_address", .address, "127.0.0.1:8081")
        .meaning(
            "Address of the operations listener for health, metrics, /admin and /console. Never expose it publicly."
        )

    static let corsOrigins = Setting("cors_origins", .origins, hint: "no origins")
        .meaning(
            "Origins of web apps that may send requests, such as https://app.example.org, or https://*.example.org for "
                + "its subdomains at every depth."
        )

    package static let jwtSecret = Setting("jwt_secret", .secret(minimumBytes: 16), isSecret: true)
        .meaning("Secret of HS256 tokens. Use at least 32 random bytes; at least 16 are required.")
    package static let jwtKeysFile = Setting("jwt_keys_file", .path)
        .meaning("File with public keys (RS256, ES256, EdDSA): PEM blocks or a JWKS document.")
    package static let jwtJWKSURL = Setting("jwt_jwks_url", .keySetURL)
        .meaning("URL of a JWKS document with more public keys. It is fetched regularly.")
    package static let jwtIssuersFile = Setting("jwt_issuers_file", .path)
        .meaning(
            "JSON file with more issuers, each with its keys and the organizations for which it may issue tokens. "
                + "docs/operations.md has an example."
        )
    package static let jwtIssuer = Setting("jwt_issuer", .text)
        .meaning("Required `iss` of tokens. Mandatory for public keys, optional for a secret.")
    package static let jwtAudience = Setting("jwt_audience", .text)
        .meaning(
            "Required `aud` of tokens: its value, or one of its values. Mandatory for public keys, optional "
                + "for a secret."
        )
    package static let jwtExclusiveKeys = Setting("jwt_exclusive_keys", .choice(["no", "yes"]), "no")
        .meaning(
            "`yes` declares that the public keys sign tokens for this gateway only, so that issuer and audience "
                + "may be unset."
        )
    package static let jwtAudienceClaim = Setting("jwt_audience_claim", .claimPlace, "aud")
        .meaning("Claim that contains the audience; `client_id` for access tokens of Cognito.")
    package static let jwtUserClaim = Setting("jwt_user_claim", .claimPlace, "sub")
        .meaning("Claim that identifies the user: a name, or a path such as $.oid or $['https://acme.example/user'].")
    package static let jwtUserIDs = Setting(
        "jwt_user_ids",
        .choice(IdentityPlaces.UserForm.allCases.map(\.rawValue)),
        "either"
    )
    .meaning(
        "Form of the user claim: the user's UUID (`uuid`), a text to which Sluice assigns a UUID (`mapped`), or both "
            + "(`either`): a text in the form of a UUID is then the user's UUID."
    )
    package static let jwtOrganizationClaim = Setting("jwt_organization_claim", .claimPlace, "org")
        .meaning(
            "Claim that identifies the organization: a name or a path. Set at most one of this and the next two "
                + "settings; the default applies if none is set."
        )
    package static let jwtOrganizationKeys = Setting("jwt_organization_keys", .claimPlace)
        .meaning(
            "Instead of the organization claim: path to an object whose member names are the user's organizations, or "
                + "to a list of names, such as $.organization."
        )
    package static let jwtOrganization = Setting("jwt_organization", .uuid)
        .meaning("Instead of the organization claim: all tokens belong to this organization.")
    package static let jwtOrganizationIDs = Setting(
        "jwt_organization_ids",
        .choice(IdentityPlaces.OrganizationForm.allCases.map(\.rawValue)),
        "either"
    )
    .meaning(
        "Form of the organization's name in tokens: the UUID (`uuid`), one of the `external_ids` (`external`), or both "
            + "(`either`)."
    )
    package static let jwtChannelClaim = Setting("jwt_channel_claim", .claimPlace)
        .meaning("Claim with the channels that the token's user holds: a name or a path to a text or a list of texts.")
    package static let jwtChannelPrefix = Setting("jwt_channel_prefix", .text)
        .meaning(
            "Text that Sluice puts before each name in the channel claim: with `team/`, the name `7` grants `team/7`."
        )
    package static let jwtChannelRole = Setting(
        "jwt_channel_role",
        .choice(ChannelRole.allCases.map(\.rawValue)),
        "read"
    )
    .meaning("Role with which users hold the channels of the claim.")
    package static let jwtLeewaySeconds = Setting("jwt_leeway_seconds", .number(0...600), "0")
        .meaning("Tolerated difference between the clocks of the gateway and of the issuer.")
    package static let operatorToken = Setting("operator_token", .operatorTokens, hint: "/admin is off", isSecret: true)
        .meaning(
            "Bearer tokens of /admin, separated by spaces. Prefer their hashes, such as anna@settle:sha256:HEX, which "
                + "`sluice token make --operator` prints. A token without a name belongs to `operator`; a token without a "
                + "scope has the scope `admin`."
        )

    static let signingKeyFile = Setting("signing_key_file", .path, hint: "no signed tokens")
        .meaning(
            "Private key (PEM; EC P-256, Ed25519 or RSA) that signs the tokens for upstreams with the credential "
                + "`signed`. GET /.well-known/jwks.json has the public key."
        )
    package static let masterKeyFile = Setting("master_key_file", .path, hint: "no encryption")
        .meaning("Master keys of encryption at rest, one in each line. `sluice keys --help` describes the format.")
    package static let retryBaseSeconds = Setting("retry_base_seconds", .decimal(0.01...3_600), "2")
        .meaning(
            "Half of the pause after the first failed attempt at an upstream. Each further failed attempt doubles the "
                + "pause; up to a fifth is added at random."
        )
    package static let retryCapSeconds = Setting("retry_cap_seconds", .decimal(0.01...86_400), "1800")
        .meaning("Maximum pause between attempts at an upstream.")
    package static let leaseSeconds = Setting("lease_seconds", .decimal(2...3_600), "120")
        .meaning(
            "Duration of a gateway's exclusive right to process a lane, renewed during the work. If the gateway fails, "
                + "another one continues the lane after that time."
        )
    package static let maxLanes = Setting("max_lanes", .number(1...100_000), "1024")
        .meaning(
            "Maximum number of lanes in progress, not counting lanes that wait for a slow upstream, whose responses "
                + "take 0.25 seconds or more."
        )
    package static let maxUpstreamRequests = Setting(
        "max_upstream_requests",
        .number(1...100_000),
        hint: "4 × SLUICE_MAX_LANES, at least 4,096"
    )
    .meaning(
        "Maximum number of concurrent requests to upstreams. Also the maximum number of lanes in progress, including "
            + "lanes that wait for a slow upstream."
    )

    static let webhookAllowedNetworks = Setting(
        "webhook_allowed_networks",
        .networks,
        hint: "public addresses, https only"
    )
    .meaning("Private networks to which webhooks may be sent, such as 10.1.2.0/24; http is allowed there too.")
    package static let webhookSigningKey = Setting(
        "webhook_signing_key",
        .webhookKey,
        hint: "v1 signatures only",
        isSecret: true
    )
    .meaning(
        "Ed25519 key of v1a signatures, which webhooks then have in addition to v1 signatures (HMAC with each "
            + "webhook's secret). `sluice webhooks create-key` generates one."
    )
    package static let maxWebhooks = Setting("max_webhooks", .number(1...1_000), "32")
        .meaning(
            "Maximum number of concurrent webhook deliveries. Deliveries that only wait for a response do not count; "
                + "including them, the maximum is four times this number."
        )
    package static let maxReplications = Setting("max_replications", .number(1...1_000), "32")
        .meaning(
            "Maximum number of organizations' databases (sources of kind postgres) that are followed at the same time."
        )
    package static let maxPolls = Setting("max_polls", .number(1...1_000), "16")
        .meaning(
            "Maximum number of sources that are polled at the same time. Sources that only wait for a response do not "
                + "count; including them, the maximum is four times this number."
        )

    static let retentionSucceededDays = Setting("retention_succeeded_days", .decimal(0.01...36_500), "7")
        .meaning("Days for which payloads of succeeded and discarded mutations are kept.")
    package static let retentionDays = Setting("retention_days", .decimal(0.01...36_500), "30")
        .meaning(
            "Days for which records of mutations, tombstones, and failed or conflicting mutations are kept. `sluice "
                + "retention --help` describes the effects."
        )
    static let retentionAuditDays = Setting("retention_audit_days", .decimal(0.01...36_500), "365")
        .meaning("Days for which the audit log is kept.")
    package static let retentionIntervalSeconds = Setting("retention_interval_seconds", .decimal(1...604_800), "3600")
        .meaning("Seconds between the end of a retention run and the next run.")

    package static let logLevel = Setting("log_level", .choice(Logger.Level.allCases.map(\.rawValue)), "info")
        .meaning("Minimum level of log lines.")
    package static let logFormat = Setting(
        "log_format",
        .choice(LogFormat.allCases.map(\.rawValue)),
        hint: "text on a terminal, else json"
    )
    .meaning("Format of log lines.")
    package static let metricsOrganizations = Setting("metrics_organizations", .number(0...100), "0")
        .meaning(
            "Number of organizations that metrics name by id. These are the organizations with mutations that have "
                + "waited longest. All other organizations are counted as `other`."
        )

    package static let traceReceiver = Setting("otel_exporter_otlp_endpoint", .receiverURL, hint: "no spans")
        .meaning("Base URL of a receiver of OTLP over HTTP, to which spans are sent as JSON. /v1/traces is appended.")
    static let traceHeaders = Setting("otel_exporter_otlp_headers", .headers, isSecret: true)
        .meaning("Headers of requests to that receiver, such as a credential.")
    static let traceSampler = Setting(
        "otel_traces_sampler",
        .choice([
            "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off",
            "parentbased_traceidratio",
        ]),
        "parentbased_traceidratio"
    )
    .meaning("Which traces are recorded. `parentbased_` follows the client's `traceparent`, if there is one.")
    static let traceRatio = Setting("otel_traces_sampler_arg", .decimal(0...1), "0.01")
        .meaning("Share of traces that the samplers by ratio record.")
    static let serviceName = Setting("otel_service_name", .text, "sluice")
        .meaning("Name of the gateways in traces.")

    package static let maxMutations = Setting("max_mutations", .number(1...10_000), "500")
        .meaning("Maximum number of mutations in a push.")
    package static let maxBodyBytes = Setting("max_body_bytes", .number(1_024...67_108_864), "4194304")
        .meaning("Maximum size of a push.")
    package static let maxPayloadBytes = Setting("max_payload_bytes", .number(256...16_777_216), "262144")
        .meaning("Maximum size of a mutation's payload.")
    package static let maxConnections = Setting("max_connections", .number(1...1_000_000), "10000")
        .meaning("Maximum number of open connections of the public listener.")
    package static let maxBodyBytesInFlight = Setting(
        "max_body_bytes_in_flight",
        .number(1_024...8_589_934_592),
        "67108864"
    )
    .meaning(
        "Maximum size of all request bodies in memory. A body is rejected with 503 if the organization's "
            + "bodies, including this one, would take more memory than then remains free."
    )
    package static let maxAnswerBytesInFlight = Setting(
        "max_answer_bytes_in_flight",
        .number(4_194_304...8_589_934_592),
        "67108864"
    )
    .meaning(
        "Maximum size of all responses in memory. A request waits if the organization's responses, including its "
            + "own, would take more memory than then remains free; after 5 seconds it gets 503."
    )
    static let maxDevicesPerUser = Setting("max_devices_per_user", .number(1...1_000_000), "1000")
        .meaning("Maximum number of devices of a user. A further device is rejected.")

    /// Every setting, in the order of the help text.
    package static let all = [
        databaseURL, hintsDatabaseURL, directCommits, databasePoolSize, committers, statementSeconds,
        publicAddress, operationsAddress, corsOrigins,
        jwtSecret, jwtKeysFile, jwtJWKSURL, jwtIssuersFile,
        jwtIssuer, jwtAudience, jwtAudienceClaim, jwtExclusiveKeys, jwtUserClaim, jwtUserIDs,
        jwtOrganizationClaim, jwtOrganizationKeys, jwtOrganization, jwtOrganizationIDs,
        jwtChannelClaim, jwtChannelPrefix, jwtChannelRole, jwtLeewaySeconds,
        operatorToken, signingKeyFile, masterKeyFile,
        retryBaseSeconds, retryCapSeconds, leaseSeconds, maxLanes, maxUpstreamRequests,
        webhookAllowedNetworks, webhookSigningKey, maxWebhooks, maxReplications, maxPolls,
        retentionSucceededDays, retentionDays, retentionAuditDays, retentionIntervalSeconds,
        logLevel, logFormat, metricsOrganizations,
        traceReceiver, traceHeaders, traceSampler, traceRatio, serviceName,
        maxMutations, maxBodyBytes, maxPayloadBytes, maxConnections, maxBodyBytesInFlight,
        maxAnswerBytesInFlight, maxDevicesPerUser,
    ]

    /// The name of the setting that contains the path of a configuration file.
    package static let configFile = "config_file"

    /// All known names.
    static let knownNames = all.flatMap { [$0.name] + ($0.fileName.map { [$0] } ?? []) } + [configFile]
}
