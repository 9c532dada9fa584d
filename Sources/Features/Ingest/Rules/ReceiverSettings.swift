package import JSONText
import SyncModel

/// A source of kind `webhook`: the organization's API sends Standard Webhooks.
package struct ReceiverSettings: Sendable, Hashable {
    package var mapping: SourceMapping

    package init(mapping: SourceMapping) {
        self.mapping = mapping
    }

    /// Reads settings; nil if they have defects, which the report has then.
    package init?(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) {
        var mapping: SourceMapping?
        let seen = report.members(of: value, at: pointer, "the settings of a webhook source: mapping") {
            report,
            member,
            place,
            value in
            guard member == "mapping" else { return false }
            mapping = SourceMapping(value, at: place, &report)
            return true
        }
        guard let seen else { return nil }
        report.require(["mapping"], in: seen, at: pointer)
        guard let mapping else { return nil }
        self.mapping = mapping
    }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.name("mapping")
        mapping.write(to: &writer)
    }

    /// Why a text can be no secret; nil for a good one, or none: then one is made.
    static func problem(ofSecret secret: String?) -> String? { nil }
}
