import CommandSupport
import JSONText

extension RestoreNote {
    /// Lists the sources whose slots may be ahead of the restored position.
    init(_ sources: [RestoredSource]) {
        var writer = JSONWriter()
        writer.beginArray()
        for source in sources {
            writer.beginObject()
            writer.member("organization_id", source.key.organization)
            writer.member("name", source.key.name)
            writer.member("status", source.isEnabled ? "enabled" : "disabled")
            writer.member("confirmed_lsn", source.confirmed)
            writer.endObject()
        }
        writer.endArray()
        self.init(lines: sources.map(Self.line), name: "sources", json: writer.bytes)
    }

    private static func line(_ source: RestoredSource) -> String {
        let position = source.confirmed.map { "position \($0)" } ?? "without a position"
        return "source \(source.key.name) of organization \(source.key.organization.lowercased), \(position): "
            + "it stops if its slot is ahead; then import its tables and run: sluice sources run "
            + "\(source.key.organization.lowercased) \(source.key.name) --from-beginning"
    }
}
