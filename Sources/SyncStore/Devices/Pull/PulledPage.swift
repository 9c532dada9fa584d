import Foundation
import JSONText
import Postgres
import SyncModel

/// A page of the feed on its way into a device's own ids.
struct PulledPage: Sendable {
    /// What the device calls an entity: what it is known to, or what the planner finds.
    fileprivate enum Name {
        case known(Int64)
        case named(PullPlanner.Name)

        var planned: PullPlanner.Name? {
            if case .named(let name) = self { name } else { nil }
        }

        func number(_ planner: PullPlanner) -> Int64? {
            switch self {
            case .known(let number): number
            case .named(let name): planner.number(of: name)
            }
        }
    }

    /// An id that stands in a relation, and what it names.
    fileprivate struct Target {
        let value: JSONValue
        let name: Name
    }

    fileprivate struct Change {
        let name: Name?
        let document: [UInt8]?
        /// Set where the document holds ids of the device.
        var parsed: JSONValue?
        var targets: [Target] = []
    }

    private let page: FeedPage
    private var changes: [Change] = []
    var planner: PullPlanner

    /// Opens and reads the changes. Only documents of types with relations to types with device ids are parsed.
    ///
    /// - Parameter known: numbers that the device has; those of the other entities are for the planner to find.
    init(
        _ page: FeedPage,
        _ types: [String: EntityType],
        counters: [String: Int64?],
        _ known: [String: DeviceNumbers.OfType],
        _ seal: Seal
    ) throws {
        self.page = page
        planner = PullPlanner(counters: counters)
        changes.reserveCapacity(page.changes.count)
        for row in page.changes {
            let type = types[try page.entityType(row)]
            var name: Name?
            if let type, type.idSpace == .device {
                let id = try page.id(row)
                name = known[type.name]?[id.text].map(Name.known) ?? .named(planner.name(id, of: type.name))
                if case .known(let number)? = name { planner.show(number, of: type.name) }
            }
            var change = Change(name: name, document: try page.document(row, seal))
            if let type, type.holdsLocalIDs, let document = change.document {
                try change.read(document, type, known, &planner)
            }
            planner.add(
                name?.planned,
                isDeleted: try page.isDeleted(row),
                targets: change.targets.compactMap(\.name.planned)
            )
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
            let number = change.name.flatMap { $0.number(planner) }
            try page.write(row, document: change.translated(planner), localID: number, to: &writer)
        }
    }
}

extension PulledPage.Change {
    /// Numbers and strings in relations are permanent ids; anything else there leads nowhere.
    fileprivate mutating func read(
        _ document: [UInt8],
        _ type: EntityType,
        _ known: [String: DeviceNumbers.OfType],
        _ planner: inout PullPlanner
    ) throws {
        let root = try JSONTree(parsing: document, limits: .widest).root
        for place in root.values(in: type.relations) where place.relation.idSpace == .device {
            let name: PulledPage.Name
            if let number = known[place.relation.entityType]?[place.value] {
                planner.show(number, of: place.relation.entityType)
                name = .known(number)
            } else if let id = ServerID(json: place.value) {
                name = .named(planner.name(id, of: place.relation.entityType))
            } else {
                continue
            }
            targets.append(PulledPage.Target(value: place.value, name: name))
        }
        if !targets.isEmpty { parsed = root }
    }

    fileprivate func translated(_ planner: PullPlanner) -> [UInt8]? {
        guard let parsed else { return document }
        let edits = targets.compactMap { target in
            target.name.number(planner).map { JSONEdit(target.value, .integer($0)) }
        }
        return parsed.rewritten(edits) ?? document
    }
}
