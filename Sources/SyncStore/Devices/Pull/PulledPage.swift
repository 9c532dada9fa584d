import JSONText
import SyncModel

/// A page of the feed while its ids are replaced by a device's local ids.
struct PulledPage: Sendable {
    /// The device's local id of an entity: already known, or still to be determined by the planner.
    fileprivate enum Name {
        case known(Int64)
        case named(PullPlanner.Name)

        var planned: PullPlanner.Name? {
            if case .named(let name) = self { name } else { nil }
        }

        var known: Int64? {
            if case .known(let number) = self { number } else { nil }
        }

        func number(_ planner: PullPlanner) -> Int64? {
            switch self {
            case .known(let number): number
            case .named(let name): planner.number(of: name)
            }
        }
    }

    /// An id in a relation, and the entity to which it refers.
    fileprivate struct Target {
        let value: JSONValue
        let name: Name
    }

    fileprivate struct Change {
        let name: Name?
        /// The document: as stored, or already with local ids if all its ids are known.
        var document: [UInt8]?
        /// The parsed document, if it contains ids to replace.
        var parsed: JSONValue?
        var targets: [Target] = []
    }

    /// A page ends once it names this many entities without a known local id. This limits the local ids that one page
    /// assigns.
    ///
    /// The page ends with the change that reaches this limit. The entities of that change can exceed the limit.
    static let nameLimit = 10_000

    private var page: FeedPage
    private var changes: [Change] = []
    var planner: PullPlanner

    /// The facts about one of a page's types.
    ///
    /// The facts are computed once for each type, because most changes of a page have the same type.
    fileprivate struct TypeView {
        struct Relation {
            /// The member's name in UTF-8.
            let member: [UInt8]
            let entityType: String
            let known: DeviceNumbers.OfType?
            /// The highest known local id on the page.
            var shown: Int64?
        }

        let name: String
        /// Whether entities of the type have local ids.
        let isNumbered: Bool
        let known: DeviceNumbers.OfType?
        /// The highest known local id on the page.
        var shown: Int64?
        /// The relations that refer to types with local ids.
        var relations: [Relation]

        init(_ name: String, _ type: EntityType?, _ known: [ByteExactString: DeviceNumbers.OfType]) {
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

        /// Passes the highest known local id on the page to the planner.
        func apply(_ planner: inout PullPlanner) {
            if let shown { planner.recordLocalID(shown, of: name) }
            for relation in relations {
                if let shown = relation.shown { planner.recordLocalID(shown, of: relation.entityType) }
            }
        }
    }

    /// Decrypts and reads the changes. Documents are parsed only if their types have relations to types with local ids.
    ///
    /// - Parameter known: the device's known local ids; the planner determines the local ids of other entities.
    init(
        _ page: FeedPage,
        _ types: [ByteExactString: EntityType],
        counters: [ByteExactString: Int64?],
        _ known: [ByteExactString: DeviceNumbers.OfType],
        _ seal: Seal
    ) throws {
        self.page = page
        planner = PullPlanner(counters: counters)
        changes.reserveCapacity(page.changes.count)
        var view = TypeView("", nil, [:])
        var texts = DocumentTexts()
        for change in page.changes {
            let type = change.entityType
            if type != view.name {
                view.apply(&planner)
                view = TypeView(type, types[type], known)
            }
            var name: Name?
            if view.isNumbered {
                let id = change.id
                if let number = view.known?[id.text] {
                    view.shown = max(number, view.shown ?? number)
                    name = .known(number)
                } else {
                    name = .named(planner.name(id, of: type))
                }
            }
            let document = try change.document(seal)
            changes.append(Change(name: name, document: document))
            if !view.relations.isEmpty, let document { texts.add(document, of: changes.count - 1) }
        }
        view.apply(&planner)
        view = TypeView("", nil, [:])
        for (place, root) in try texts.parsed() {
            let type = page.changes[place].entityType
            if type != view.name {
                view.apply(&planner)
                view = TypeView(type, types[type], known)
            }
            changes[place].read(root, &view, &planner)
            if planner.nameCount >= Self.nameLimit, place + 1 < page.changes.count {
                self = try PulledPage(page.first(place + 1), types, counters: counters, known, seal)
                return
            }
        }
        view.apply(&planner)
        for (shown, change) in zip(page.changes, changes) {
            planner.add(
                change.name?.planned,
                isDeleted: shown.isDeleted,
                targets: change.targets.compactMap(\.name.planned)
            )
        }
    }

    /// The cursor after the last change of this page. This page can end earlier than the page that was read from the
    /// feed.
    var next: FeedCursor { page.next }

    static func types(_ page: FeedPage) -> Set<ByteExactString> { Set(page.changes.lazy.map(\.entityType)) }

    /// Returns the page with the device's local ids instead of server ids.
    ///
    /// - Parameter next: the cursor of the next pull.
    func page(next: FeedCursor) -> FeedPage {
        var page = page
        page.next = next
        page.nextLocalIDs = planner.nextLocalIDs
        page.changes = page.changes.indices.filter(planner.isShown).map { place in
            var shown = page.changes[place]
            shown.show(changes[place].translated(planner), localID: changes[place].name.flatMap { $0.number(planner) })
            return shown
        }
        return page
    }
}

extension PulledPage.Change {
    /// Finds the ids in the change's document.
    ///
    /// In a relation, numbers and strings are permanent ids; other values refer to no entity. If the local ids of all
    /// these ids are known, the document is translated immediately.
    fileprivate mutating func read(
        _ root: JSONValue,
        _ view: inout PulledPage.TypeView,
        _ planner: inout PullPlanner
    ) {
        guard let members = root.members else { return }
        var found: [PulledPage.Target] = []
        for (name, value) in members {
            guard let place = view.relations.firstIndex(where: { name.equals(utf8: $0.member) }) else { continue }
            if let elements = value.elements {
                for element in elements {
                    if let target = Self.target(element, &view.relations[place], &planner) { found.append(target) }
                }
            } else if let target = Self.target(value, &view.relations[place], &planner) {
                found.append(target)
            }
        }
        guard !found.isEmpty else { return }
        if found.contains(where: { $0.name.planned != nil }) {
            targets = found
            parsed = root
        } else {
            let edits = found.compactMap { target in target.name.known.map { JSONEdit(target.value, .integer($0)) } }
            document = root.rewritten(edits) ?? document
        }
    }

    private static func target(
        _ value: JSONValue,
        _ relation: inout PulledPage.TypeView.Relation,
        _ planner: inout PullPlanner
    ) -> PulledPage.Target? {
        if let number = relation.known?[value] {
            relation.shown = max(number, relation.shown ?? number)
            return PulledPage.Target(value: value, name: .known(number))
        }
        guard let id = ServerID(json: value) else { return nil }
        return PulledPage.Target(value: value, name: .named(planner.name(id, of: relation.entityType)))
    }

    fileprivate func translated(_ planner: PullPlanner) -> [UInt8]? {
        guard let parsed else { return document }
        let edits = targets.compactMap { target in
            target.name.number(planner).map { JSONEdit(target.value, .integer($0)) }
        }
        return parsed.rewritten(edits) ?? document
    }
}

/// The documents of a page, parsed together as the elements of one array.
///
/// Parsing each document separately would cost several times as much.
private struct DocumentTexts {
    private var text: [UInt8] = [UInt8(ascii: "[")]
    private var places: [Int] = []

    mutating func add(_ document: [UInt8], of place: Int) {
        if !places.isEmpty { text.append(UInt8(ascii: ",")) }
        text += document
        places.append(place)
    }

    func parsed() throws -> Zip2Sequence<[Int], [JSONValue]> {
        guard !places.isEmpty else { return zip([], []) }
        let root = try JSONTree(parsing: text + [UInt8(ascii: "]")], limits: .widest).root
        return zip(places, root.elements.map(Array.init) ?? [])
    }
}
