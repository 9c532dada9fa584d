import FoundationEssentials
import Glibc
import JSONText
package import Logging
package import StandardWebhooks
import SyncDispatch
package import SyncHTTP
package import SyncModel
package import SyncStore
package import Telemetry
package import Tokens

/// All settings with their checked values.
package struct Settings: Sendable {
    /// The values in force, by the setting's name. Settings without a value are omitted.
    private var values: [String: String] = [:]

    /// The configured master keys; nil if nothing is sealed.
    package var masterKeys: MasterKeys?
    /// Problems of the configuration that do not prevent the start.
    package var warnings: [String]
    /// Unknown names, each with the known name that may have been intended.
    ///
    /// They are part of the warnings, and may explain a missing setting.
    package private(set) var unknownNames: [String] = []
    /// Whether the default database is used, because no database was set.
    private(set) var isDatabaseUnset = false
    /// Each setting with the value that operators see. For a secret, this is "set" or "not set".
    package var inForce: [(name: String, value: String)]

    /// Reads the environment. If `configFile` or the environment names a configuration file, also reads this file.
    package static func load(
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

    /// A hint for error messages about the database; empty if a database was set.
    ///
    /// It contains the default that was used, and the unknown names that were set.
    package var databaseHint: String {
        guard isDatabaseUnset, let fallback = Setting.databaseURL.fallback else { return "" }
        let tried = "\(Setting.databaseURL.variable) is not set, so the default \(fallback) is used"
        let names = unknownNames.map { "; " + $0 }.joined()
        return "; " + tried + ", with libpq's default host and user (PGHOST, PGUSER, …)" + names
    }

    /// Reads all settings, so that all problems are reported together. A value with a problem is never used.
    private init(_ reader: inout SettingsReader) {
        for setting in Setting.all { values[setting.name] = reader.text(setting) }
        warnings = []
        inForce = reader.inForce
    }

    /// A setting's checked value; nil if it has no value.
    package subscript(setting: Setting) -> String? {
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
        let areDistinct = publicAddress != operationsAddress || publicAddress.port == 0
        differ(.publicAddress, .operationsAddress, areDistinct)
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
    package var databaseURL: String { text(.databaseURL) }
    package var hintsDatabaseURL: String? { self[.hintsDatabaseURL] }
    package var directCommits: Bool { self[.directCommits] == "yes" }
    package var databasePoolSize: Int { number(.databasePoolSize) }
    package var committers: Int { number(.committers) }
    /// The number of connections of all committers: ``committers`` for pushes, the same number for lanes, and one each
    /// for heavy pushes, for events and for large batches of events.
    package var committerConnections: Int { 2 * committers + 3 }
    package var databaseTimeouts: DatabaseTimeouts { DatabaseTimeouts(statement: .seconds(decimal(.statementSeconds))) }

    package var publicAddress: ListenAddress { address(.publicAddress) }
    package var operationsAddress: ListenAddress { address(.operationsAddress) }
    package var allowedOrigins: AllowedOrigins? { self[.corsOrigins].flatMap(AllowedOrigins.init(parsing:)) }

    package var jwtSecret: String? { self[.jwtSecret] }
    package var jwtKeysFile: String? { self[.jwtKeysFile] }
    package var jwtJWKSURL: String? { self[.jwtJWKSURL] }
    package var jwtIssuersFile: String? { self[.jwtIssuersFile] }
    package var jwtIssuer: String? { self[.jwtIssuer] }
    package var jwtAudience: String? { self[.jwtAudience] }
    /// Whether the operator declared that the issuers' keys sign tokens for this gateway only.
    var hasExclusiveKeys: Bool { self[.jwtExclusiveKeys] == "yes" }
    package var jwtAudienceClaim: ClaimPlace { place(.jwtAudienceClaim) ?? ClaimPlace(named: "aud") }
    /// The claims that contain a token's user and organization.
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
    /// The claim that contains the channels of a token's user; nil if tokens grant no channels.
    var channelClaim: ChannelClaim? {
        place(.jwtChannelClaim).map {
            let role = self[.jwtChannelRole].flatMap(ChannelRole.init(rawValue:)) ?? .read
            return ChannelClaim($0, prefix: self[.jwtChannelPrefix] ?? "", role: role)
        }
    }
    package var jwtLeewaySeconds: Int { number(.jwtLeewaySeconds) }
    package var operatorTokens: OperatorTokens? { self[.operatorToken].flatMap(OperatorTokens.init(parsing:)) }
    var signingKeyFile: String? { self[.signingKeyFile] }
    package var masterKeyFile: String? { self[.masterKeyFile] }

    package var retryBaseSeconds: Double { decimal(.retryBaseSeconds) }
    package var retryCapSeconds: Double { decimal(.retryCapSeconds) }
    package var leaseSeconds: Double { decimal(.leaseSeconds) }
    package var maxLanes: Int { number(.maxLanes) }
    package var maxUpstreamRequests: Int {
        self[.maxUpstreamRequests] == nil
            ? DispatchConfiguration.maximumRequests(lanes: maxLanes) : number(.maxUpstreamRequests)
    }

    /// The addresses to which webhooks may be sent.
    package var webhookAddresses: AddressPolicy {
        AddressPolicy(allowed: self[.webhookAllowedNetworks].flatMap(IPNetwork.list) ?? [])
    }
    package var webhookSigningKey: WebhookSigningKey? { self[.webhookSigningKey].flatMap(WebhookSigningKey.init) }
    package var maxWebhooks: Int { number(.maxWebhooks) }
    package var maxReplications: Int { number(.maxReplications) }
    package var maxPolls: Int { number(.maxPolls) }

    var retentionSucceededDays: Double { decimal(.retentionSucceededDays) }
    package var retentionDays: Double { decimal(.retentionDays) }
    var retentionAuditDays: Double { decimal(.retentionAuditDays) }
    package var retentionIntervalSeconds: Double { decimal(.retentionIntervalSeconds) }

    package var logLevel: Logger.Level { self[.logLevel].flatMap(Logger.Level.init(rawValue:)) ?? .info }
    package var logFormat: LogFormat? { self[.logFormat].flatMap(LogFormat.init(rawValue:)) }
    package var metricsOrganizations: Int { number(.metricsOrganizations) }

    /// The receiver of spans; nil if spans are off.
    package var traceReceiver: String? { self[.traceReceiver].flatMap { try? BaseURL($0).text } }
    package var traceHeaders: [(name: String, value: String)] {
        self[.traceHeaders].flatMap(HeaderList.init)?.headers ?? []
    }
    package var traceSampler: String { text(.traceSampler) }
    package var traceRatio: Double { decimal(.traceRatio) }
    package var serviceName: String { text(.serviceName) }

    package var maxMutations: Int { number(.maxMutations) }
    package var maxBodyBytes: Int { number(.maxBodyBytes) }
    package var maxPayloadBytes: Int { number(.maxPayloadBytes) }
    package var maxConnections: Int { number(.maxConnections) }
    package var maxBodyBytesInFlight: Int { number(.maxBodyBytesInFlight) }
    package var maxAnswerBytesInFlight: Int { number(.maxAnswerBytesInFlight) }
    var maxDevicesPerUser: Int { number(.maxDevicesPerUser) }

    private func text(_ setting: Setting) -> String { self[setting] ?? "" }
    private func number(_ setting: Setting) -> Int { self[setting].flatMap(Setting.Form.wholeNumber) ?? 0 }
    private func decimal(_ setting: Setting) -> Double { self[setting].flatMap(Setting.Form.decimal) ?? 0 }

    private func place(_ setting: Setting) -> ClaimPlace? { self[setting].flatMap { try? ClaimPlace(parsing: $0) } }

    private func address(_ setting: Setting) -> ListenAddress {
        self[setting].flatMap(ListenAddress.init(parsing:)) ?? ListenAddress(host: "", port: 0)
    }
}

extension Settings {
    /// Reads the file of master keys. The reported problems contain names of keys, never the keys themselves.
    mutating func readMasterKeys(_ reader: inout SettingsReader) {
        guard let masterKeyFile else { return }
        let variable = Setting.masterKeyFile.variable
        guard let data = FileManager.default.contents(atPath: masterKeyFile) else {
            return reader.record("\(variable) names \(masterKeyFile), which cannot be read.")
        }
        guard data.count <= MasterKeys.maximumBytes else {
            return reader.record("\(variable) names \(masterKeyFile), which is not a file of master keys.")
        }
        if let defect = FileForm.defect(data) {
            return reader.record("\(variable) names \(masterKeyFile), which \(defect).")
        }
        do throws(MasterKeyError) {
            masterKeys = try MasterKeys(parsing: String(decoding: FileForm.withoutMark(data), as: UTF8.self))
        } catch {
            reader.record("\(variable) names \(masterKeyFile), which cannot be used: \(error).")
        }
        var attributes = stat()
        if stat(masterKeyFile, &attributes) == 0, attributes.st_mode & 0o007 != 0 {
            warnings.append("\(variable) names \(masterKeyFile), which every user can read; run chmod 600.")
        }
    }
}

extension Settings {
    /// The table of all settings, for help texts.
    package static var help: String {
        Setting.all.map { setting in
            let name = setting.variable + (setting.isSecret ? " (or …_FILE)" : "")
            let fallback = setting.fallbackHint ?? setting.fallback ?? "none"
            return """
                  \(name)
                      \(setting.meaning)
                      \(setting.form.typeName); default: \(fallback)
                """
        }
        .joined(separator: "\n")
    }
}
