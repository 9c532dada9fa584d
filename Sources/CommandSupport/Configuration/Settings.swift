import FoundationEssentials
import JSONText
import Logging
import StandardWebhooks
import SyncDispatch
import SyncHTTP
import SyncModel
import SyncStore
import Telemetry
import Tokens

/// Every setting with its checked value.
struct Settings: Sendable {
    /// The values in force, by the setting's name; settings without a value are left out.
    private var values: [String: String] = [:]

    /// The configured master keys; nil if nothing is sealed.
    var masterKeys: MasterKeys?
    /// What an operator should know although it stops nothing.
    var warnings: [String]
    /// Unknown names, each with the known one that may have been intended.
    ///
    /// They are part of the warnings, and may explain a missing setting.
    private(set) var unknownNames: [String] = []
    /// Whether no database was set, so that the default is tried.
    private(set) var isDatabaseUnset = false
    /// Each setting in the form to be shown: secrets are "set" or "not set".
    var inForce: [(name: String, value: String)]

    /// Reads the environment and, where `configFile` or the environment names one, a file.
    static func load(
        configFile: String?,
        environment: [String: String]
    ) throws(ConfigurationError) -> Settings {
        let variables = SettingsSource.environment(environment)
        var sources = [variables]
        let variable = try variables.text(Setting.configFile)
        if let path = configFile ?? variable { sources.append(try .file(path)) }
        var reader = SettingsReader(sources: sources)
        var settings = Settings(&reader)
        settings.unknownNames = sources.flatMap(\.unknownNames)
        settings.warnings += settings.unknownNames
        settings.isDatabaseUnset = !reader.isSet(.databaseURL)
        settings.check(&reader)
        settings.readMasterKeys(&reader)
        guard reader.problems.isEmpty else { throw ConfigurationError(reader.problems + settings.unknownNames) }
        return settings
    }

    /// A hint that is appended to the database's error if no database was set: the default that is tried, and unknown
    /// names that were set. Otherwise empty.
    var databaseHint: String {
        guard isDatabaseUnset, let fallback = Setting.databaseURL.fallback else { return "" }
        let tried = "\(Setting.databaseURL.variable) is not set, so the default \(fallback) is used"
        let names = unknownNames.map { "; " + $0 }.joined()
        return "; " + tried + ", with libpq's default host and user (PGHOST, PGUSER, …)" + names
    }

    /// Reads all settings, so that all problems are reported together; a value with a problem is never used.
    private init(_ reader: inout SettingsReader) {
        for setting in Setting.all { values[setting.name] = reader.text(setting) }
        warnings = []
        inForce = reader.inForce
    }

    /// A setting's checked value; nil if it has no value.
    subscript(setting: Setting) -> String? {
        get { values[setting.name] }
        set { values[setting.name] = newValue }
    }

    private mutating func check(_ reader: inout SettingsReader) {
        func differ(_ left: Setting, _ right: Setting, _ condition: Bool) {
            reader.require(condition, "\(left.variable) and \(right.variable) must differ.")
        }
        func order(_ less: Setting, _ more: Setting, _ condition: Bool, value: String = "") {
            reader.require(condition, "\(less.variable) must not be more than \(more.variable)\(value).")
        }
        let areApart = publicAddress != operationsAddress || publicAddress.port == 0
        differ(.publicAddress, .operationsAddress, areApart)
        order(.maxPayloadBytes, .maxBodyBytes, maxPayloadBytes <= maxBodyBytes, value: ", \(maxBodyBytes)")
        reader.require(
            maxBodyBytes <= maxBodyBytesInFlight,
            "\(Setting.maxBodyBytesInFlight.variable) must be at least \(Setting.maxBodyBytes.variable), "
                + "\(maxBodyBytes)."
        )
        order(.retryBaseSeconds, .retryCapSeconds, retryBaseSeconds <= retryCapSeconds)
        order(.retentionSucceededDays, .retentionDays, retentionSucceededDays <= retentionDays)
        let ways: [Setting] = [.jwtOrganizationClaim, .jwtOrganizationKeys, .jwtOrganization].filter {
            reader.isSet($0)
        }
        reader.require(
            ways.count <= 1,
            "\(ways.map(\.variable).joined(separator: " and ")) are all set; choose one of them."
        )
        differ(
            .jwtUserClaim,
            self[.jwtOrganizationKeys] == nil ? .jwtOrganizationClaim : .jwtOrganizationKeys,
            identityPlaces.organization.place != identityPlaces.user
        )
        if let (first, second) = operatorTokens?.conflictingNames {
            reader.require(
                false,
                "\(Setting.operatorToken.variable) has one token for two names, \(first) and \(second): the audit "
                    + "log could not "
                    + "distinguish these operators. Create a token for each: sluice token make --operator --name "
                    + "\(second)."
            )
        }
        if let jwtSecret, jwtSecret.utf8.count < 32 {
            warnings.append("\(Setting.jwtSecret.variable) has \(jwtSecret.utf8.count) bytes; use at least 32.")
        }
        if let jwtJWKSURL, KeySetURL.isOpenToForgery(jwtJWKSURL) {
            warnings.append(
                "\(Setting.jwtJWKSURL.variable) uses http, which allows attackers to inject keys; use https."
            )
        }
    }
}

// The settings' values.
extension Settings {
    var databaseURL: String { text(.databaseURL) }
    var hintsDatabaseURL: String? { self[.hintsDatabaseURL] }
    var directCommits: Bool { self[.directCommits] == "yes" }
    var databasePoolSize: Int { number(.databasePoolSize) }
    var committers: Int { number(.committers) }
    /// Committers of pushes and as many of lanes, one of heavy pushes, one of events and one of large batches of them.
    var committerConnections: Int { 2 * committers + 3 }
    var databasePatience: DatabasePatience { DatabasePatience(statement: .seconds(decimal(.statementSeconds))) }

    var publicAddress: ListenAddress { address(.publicAddress) }
    var operationsAddress: ListenAddress { address(.operationsAddress) }
    var allowedOrigins: AllowedOrigins? { self[.corsOrigins].flatMap(AllowedOrigins.init(parsing:)) }

    var jwtSecret: String? { self[.jwtSecret] }
    var jwtKeysFile: String? { self[.jwtKeysFile] }
    var jwtJWKSURL: String? { self[.jwtJWKSURL] }
    var jwtIssuersFile: String? { self[.jwtIssuersFile] }
    var jwtIssuer: String? { self[.jwtIssuer] }
    var jwtAudience: String? { self[.jwtAudience] }
    /// Whether the operator declared that public keys sign for this gateway alone.
    var hasExclusiveKeys: Bool { self[.jwtExclusiveKeys] == "yes" }
    var jwtAudienceClaim: ClaimPlace { place(.jwtAudienceClaim) ?? ClaimPlace(named: "aud") }
    /// The claims of a token with its user and organization.
    var identityPlaces: IdentityPlaces {
        var places = IdentityPlaces()
        if let user = place(.jwtUserClaim) { places.user = user }
        if let organization = self[.jwtOrganization].flatMap(UUID.init(parsing:)) {
            places.organization = .fixed(organization)
        } else if let keys = place(.jwtOrganizationKeys) {
            places.organization = .keys(keys)
        } else if let claim = place(.jwtOrganizationClaim) {
            places.organization = .claim(claim)
        }
        places.userForm = self[.jwtUserIDs].flatMap(IdentityPlaces.UserForm.init(rawValue:)) ?? .either
        places.organizationForm =
            self[.jwtOrganizationIDs].flatMap(IdentityPlaces.OrganizationForm.init(rawValue:)) ?? .either
        return places
    }
    var jwtLeewaySeconds: Int { number(.jwtLeewaySeconds) }
    var operatorTokens: OperatorTokens? { self[.operatorToken].flatMap(OperatorTokens.init(parsing:)) }
    var signingKeyFile: String? { self[.signingKeyFile] }
    var masterKeyFile: String? { self[.masterKeyFile] }

    var retryBaseSeconds: Double { decimal(.retryBaseSeconds) }
    var retryCapSeconds: Double { decimal(.retryCapSeconds) }
    var leaseSeconds: Double { decimal(.leaseSeconds) }
    var maxLanes: Int { number(.maxLanes) }
    var maxUpstreamRequests: Int {
        self[.maxUpstreamRequests] == nil
            ? DispatchConfiguration.maximumRequests(lanes: maxLanes) : number(.maxUpstreamRequests)
    }

    /// Where webhooks may be sent.
    var webhookAddresses: AddressPolicy {
        AddressPolicy(allowed: self[.webhookAllowedNetworks].flatMap(IPNetwork.list) ?? [])
    }
    var webhookSigningKey: WebhookSigningKey? { self[.webhookSigningKey].flatMap(WebhookSigningKey.init) }
    var maxWebhooks: Int { number(.maxWebhooks) }
    var maxReplications: Int { number(.maxReplications) }
    var maxPolls: Int { number(.maxPolls) }

    var retentionSucceededDays: Double { decimal(.retentionSucceededDays) }
    var retentionDays: Double { decimal(.retentionDays) }
    var retentionAuditDays: Double { decimal(.retentionAuditDays) }
    var retentionIntervalSeconds: Double { decimal(.retentionIntervalSeconds) }

    var logLevel: Logger.Level { self[.logLevel].flatMap(Logger.Level.init(rawValue:)) ?? .info }
    var logFormat: LogFormat? { self[.logFormat].flatMap(LogFormat.init(rawValue:)) }
    var metricsOrganizations: Int { number(.metricsOrganizations) }

    var maxMutations: Int { number(.maxMutations) }
    var maxBodyBytes: Int { number(.maxBodyBytes) }
    var maxPayloadBytes: Int { number(.maxPayloadBytes) }
    var maxConnections: Int { number(.maxConnections) }
    /// Files that may be open at the same time: connections of clients, connections to upstreams, and the reserve.
    var filesNeeded: Int { maxConnections + maxUpstreamRequests + FileLimit.reserve }
    var maxBodyBytesInFlight: Int { number(.maxBodyBytesInFlight) }
    var maxAnswerBytesInFlight: Int { number(.maxAnswerBytesInFlight) }
    var maxDevicesPerUser: Int { number(.maxDevicesPerUser) }

    private func text(_ setting: Setting) -> String { self[setting] ?? "" }
    private func number(_ setting: Setting) -> Int { self[setting].flatMap(Setting.Form.wholeNumber) ?? 0 }
    private func decimal(_ setting: Setting) -> Double { self[setting].flatMap(Setting.Form.decimal) ?? 0 }

    private func place(_ setting: Setting) -> ClaimPlace? { self[setting].flatMap { try? ClaimPlace(parsing: $0) } }

    private func address(_ setting: Setting) -> ListenAddress {
        self[setting].flatMap(ListenAddress.init(parsing:)) ?? ListenAddress(host: "", port: 0)
    }
}
