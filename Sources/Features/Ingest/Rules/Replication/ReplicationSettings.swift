package import JSONText
package import SyncModel

/// A source of kind `postgres`: the gateway reads the log of the organization's own database.
package struct ReplicationSettings: Sendable, Hashable {
    package static let tableLimit = 100

    /// The logical replication slot, made for `pgoutput`.
    @Exact package private(set) var slot: String
    @Exact package private(set) var publication: String
    /// Whether a slot that is missing is made, before the first run.
    package private(set) var createsSlot = false
    package private(set) var tables: [FollowedTable] = []

    private static let what = "the settings of a postgres source: slot, publication, create_slot, tables"

    /// Reads settings; nil if they have defects, which the report has then.
    package init?(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) {
        let before = report.problems.count
        var (slot, publication, createsSlot): (String?, String?, Bool) = (nil, nil, false)
        var tables: [FollowedTable] = []
        let seen = report.members(of: value, at: pointer, Self.what) { report, member, place, value in
            switch member {
            case "slot":
                let text = value.string.flatMap { Self.isSlotName($0) ? $0 : nil }
                slot = report.value(text, at: place, "slot must be the name of a slot: 1 to 63 of a-z, 0-9 and _")
            case "publication": publication = report.text(value, at: place, limit: QualifiedName.partLimit)
            case "create_slot": createsSlot = report.bool(value, at: place) ?? false
            case "tables": tables = Self.tables(value, at: place, &report)
            default: return false
            }
            return true
        }
        guard let seen else { return nil }
        report.require(["slot", "publication", "tables"], in: seen, at: pointer)
        guard report.problems.count == before, let slot, let publication else { return nil }
        self.slot = slot
        self.publication = publication
        self.createsSlot = createsSlot
        self.tables = tables
    }

    private static func tables(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport)
        -> [FollowedTable]
    {
        guard let elements = value.elements.map({ Array($0.prefix(tableLimit + 1)) }),
            (1...tableLimit).contains(elements.count)
        else {
            report.refuse(pointer, Rule.range, "tables must be an array of 1 to \(tableLimit) tables")
            return []
        }
        var tables: [FollowedTable] = []
        for (index, element) in elements.enumerated() {
            let place = "\(pointer)/\(index)"
            guard let table = FollowedTable(element, at: place, &report) else { continue }
            if tables.contains(where: { $0.name == table.name }) {
                report.refuse("\(place)/table", Rule.range, "table \(table.name) occurs twice")
            }
            tables.append(table)
        }
        return tables
    }

    private static func isSlotName(_ text: String) -> Bool {
        (1...QualifiedName.partLimit).contains(text.utf8.count)
            && text.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == UInt8(ascii: "_") }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("slot", slot)
        writer.member("publication", publication)
        writer.member("create_slot", createsSlot)
        writer.name("tables")
        writer.beginArray()
        for table in tables { table.write(to: &writer) }
        writer.endArray()
    }

    /// Why a text can be no connection URI; nil for a good one. Repeats nothing of it.
    static func problem(ofSecret secret: String?) -> String? {
        guard let secret else { return "a postgres source requires a secret: the URI of the database" }
        do throws(DatabaseURI.Malformed) {
            _ = try DatabaseURI(secret)
            return nil
        } catch {
            return error.reason
        }
    }

    /// The state that a worker begins with after an operator requested everything from a place on: only the slot's own
    /// place is possible.
    static func state(from value: JSONValue, at pointer: String, _ report: inout SettingsReport) -> [UInt8]? {
        report.refuse(pointer, Rule.range, "from must be null: a slot is read from its position")
        return nil
    }
}
