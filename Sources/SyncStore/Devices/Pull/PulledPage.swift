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

    /// What a page has to know of one of its types; made once, for most changes of a page are of one type.
    fileprivate struct TypeView {
        struct Relation {
            /// The member's name in UTF-8.
            let member: [UInt8]
            let entityType: String
            let known: DeviceNumbers.OfType?
        }

        let name: String
        /// Whether entities of the type have numbers.
        let isNumbered: Bool
        let known: DeviceNumbers.OfType?
        /// Those that lead to types with device ids.
        let relations: [Relation]

        init(_ name: String, _ type: EntityType?, _ known: [String: DeviceNumbers.OfType]) {
            self.name = name
            isNumbered = type?.idSpace == .device
            self.known = known[name]
            relations = (type?.relations ?? []).filter { $0.idSpace == .device }.map { relation in
                Relation(
                    member: Array(relation.member.utf8),
                    entityType: relation.entityType,
                    known: known[relation.entityType]
                )
            }
        }
    }

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
        var view = TypeView("", nil, [:])
        for row in page.changes {
            let type = try page.entityType(row)
            if type != view.name { view = TypeView(type, types[type], known) }
            var name: Name?
            if view.isNumbered {
                let id = try page.id(row)
                name = view.known?[id.text].map(Name.known) ?? .named(planner.name(id, of: type))
                if case .known(let number)? = name { planner.show(number, of: type) }
            }
            var change = Change(name: name, document: try page.document(row, seal))
            if !view.relations.isEmpty, let document = change.document {
                try change.read(document, view, &planner)
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
        var (types, last) = (Set<String>(), "")
        for row in page.changes {
            let type = try page.entityType(row)
            if type != last { types.insert(type) }
            last = type
        }
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
    fileprivate mutating func read(
        _ document: [UInt8],
        _ view: PulledPage.TypeView,
        _ planner: inout PullPlanner
    ) throws {
        let root = try JSONTree(parsing: document, limits: .widest).root
        guard let members = root.members else { return }
        for (name, value) in members {
            guard let relation = view.relations.first(where: { name.equals(utf8: $0.member) }) else { continue }
            if let elements = value.elements {
                for element in elements { read(element, relation, &planner) }
            } else {
                read(value, relation, &planner)
            }
        }
        if !targets.isEmpty { parsed = root }
    }

    /// Numbers and strings in relations are permanent ids; anything else there leads nowhere.
    private mutating func read(
        _ value: JSONValue,
        _ relation: PulledPage.TypeView.Relation,
        _ planner: inout PullPlanner
    ) {
        if let number = relation.known?[value] {
            planner.show(number, of: relation.entityType)
            targets.append(PulledPage.Target(value: value, name: .known(number)))
        } else if let id = ServerID(json: value) {
            targets.append(PulledPage.Target(value: value, name: .named(planner.name(id, of: relation.entityType))))
        }
    }

    fileprivate func translated(_ planner: PullPlanner) -> [UInt8]? {
        guard let parsed else { return document }
        let edits = targets.compactMap { target in
            target.name.number(planner).map { JSONEdit(target.value, .integer($0)) }
        }
        return parsed.rewritten(edits) ?? document
    }
}
