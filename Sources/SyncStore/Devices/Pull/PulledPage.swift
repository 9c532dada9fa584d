import Foundation
import JSONText
import Postgres
import SyncModel

/// A page of the feed on its way into a device's own ids.
struct PulledPage: Sendable {
    /// An id that stands in a relation, and what it names.
    fileprivate struct Target {
        let value: JSONValue
        let name: PullPlanner.Name
    }

    /// What of a type matters here.
    private struct Kind {
        let isNumbered: Bool
        /// Those that lead to types with device ids.
        let relations: [Relation]

        init(_ type: EntityType) {
            isNumbered = type.idSpace == .device
            relations = type.relations.filter { $0.idSpace == .device }
        }
    }

    fileprivate struct Change {
        let name: PullPlanner.Name?
        let document: [UInt8]?
        /// Set where the document holds ids of the device.
        var parsed: JSONValue?
        var targets: [Target] = []
    }

    private let page: FeedPage
    private var changes: [Change] = []
    var planner: PullPlanner

    /// Opens and reads the changes. Only documents of types with relations to types with device ids are parsed.
    init(_ page: FeedPage, _ types: [String: EntityType], counters: [String: Int64?], _ seal: Seal) throws {
        self.page = page
        planner = PullPlanner(counters: counters)
        changes.reserveCapacity(page.changes.count)
        let kinds = types.mapValues { Kind($0) }
        for row in page.changes {
            let type = try page.entityType(row)
            let kind = kinds[type]
            let name = kind?.isNumbered == true ? planner.name(try page.id(row), of: type) : nil
            var change = Change(name: name, document: try page.document(row, seal))
            if let relations = kind?.relations, !relations.isEmpty, let document = change.document {
                try change.read(document, relations, &planner)
            }
            planner.add(name, isDeleted: try page.isDeleted(row), targets: change.targets.map(\.name))
            changes.append(change)
        }
    }

    /// The types of the page.
    static func types(_ page: FeedPage) throws -> Set<String> {
        var types: Set<String> = []
        for row in page.changes { types.insert(try page.entityType(row)) }
        return types
    }

    /// Whether nothing of it is shown.
    var isEmpty: Bool { !changes.indices.contains { planner.isShown($0) } }

    /// Writes the changes that are shown, in the device's own ids.
    func write(to writer: inout JSONWriter) throws {
        for (place, row) in page.changes.enumerated() where planner.isShown(place) {
            let change = changes[place]
            let number = change.name.flatMap { planner.number(of: $0) }
            try page.write(row, document: change.translated(planner), localID: number, to: &writer)
        }
    }
}

extension PulledPage.Change {
    /// Numbers and strings in relations are permanent ids; anything else there leads nowhere.
    fileprivate mutating func read(
        _ document: [UInt8],
        _ relations: [Relation],
        _ planner: inout PullPlanner
    ) throws {
        let root = try JSONTree(parsing: document, limits: .widest).root
        for place in root.values(in: relations) {
            guard let id = ServerID(json: place.value) else { continue }
            let name = planner.name(id, of: place.relation.entityType)
            targets.append(PulledPage.Target(value: place.value, name: name))
        }
        if !targets.isEmpty { parsed = root }
    }

    fileprivate func translated(_ planner: PullPlanner) -> [UInt8]? {
        guard let parsed else { return document }
        let edits = targets.compactMap { target in
            planner.number(of: target.name).map { JSONEdit(target.value, .integer($0)) }
        }
        return parsed.rewritten(edits) ?? document
    }
}
