import Foundation
import JSONText
import StoreSupport
import SyncModel

extension RuleModel {
    /// Applies a note's mutation to the built-in store when its turn has come.
    mutating func apply(_ mutation: Accepted, of user: inout User) {
        let writer = Entity.Writer(user: user.id, device: mutation.device)
        let entry = mutation.entry
        mutation.nextTry = nil
        find(mutation, user)
        guard entry.operation != .create else {
            if refersToDeleted(mutation, user, over: nil) {
                mutation.code = "conflict"
                mutation.resolution = nil
                return end(mutation, .conflict, of: &user)
            }
            create(mutation, writer, of: &user)
            return succeed(mutation, of: &user)
        }
        let strategy = mutation.resolution ?? entry.strategy ?? strategy
        guard let id = mutation.serverID, let stored = notes[id] else {
            if entry.operation == .delete { return succeed(mutation, of: &user) }
            mutation.code = "upstream_rejected"
            return end(mutation, .failed, of: &user)
        }
        let isGone = stored.document == nil
        if entry.operation == .delete, isGone {
            mutation.version = stored.version
            return succeed(mutation, of: &user)
        }
        let accepts = !isGone && stored.accepts(entry.baseVersion, from: writer)
        if !accepts {
            mutation.code = "conflict"
            switch strategy {
            case .manual:
                mutation.metDeletion = isGone
                return end(mutation, .conflict, of: &user)
            case .clientWins where isGone && entry.operation == .update:
                mutation.metDeletion = true
                mutation.resolution = nil
                return end(mutation, .conflict, of: &user)
            case .serverWins:
                mutation.resolution = .serverWins
                mutation.version = stored.version
                end(mutation, .discarded, of: &user)
                return release(mutation, in: &user)
            case .clientWins: mutation.resolution = .clientWins
            }
        }
        guard keepsRelations(mutation, id, user, over: stored.document, by: writer) else {
            mutation.code = "conflict"
            guard strategy != .serverWins else {
                mutation.resolution = .serverWins
                mutation.version = stored.version
                end(mutation, .discarded, of: &user)
                return release(mutation, in: &user)
            }
            mutation.resolution = nil
            mutation.metDeletion = isGone
            return end(mutation, .conflict, of: &user)
        }
        write(id, document(mutation, user, over: stored.document), by: writer)
        mutation.version = notes[id]?.version
        succeed(mutation, of: &user)
    }

    // MARK: - Relations (product rule 24)

    /// Whether a mutation's payload adds a reference to a deleted note.
    private func refersToDeleted(_ mutation: Accepted, _ user: User, over stored: [String: String]?) -> Bool {
        guard deletionRule != .ignore, let value = mutation.payload?.first(where: { $0.name == "ref" })?.value else {
            return false
        }
        let target = permanent(value, of: mutation, user)
        guard let note = notes[target], note.document == nil else { return false }
        return target != mutation.serverID && target != stored?["ref"]
    }

    /// Applies the rule to notes that refer to a deleted one.
    ///
    /// - Returns: false, with nothing changed, if the mutation would break the relation.
    private mutating func keepsRelations(
        _ mutation: Accepted,
        _ id: String,
        _ user: User,
        over stored: [String: String]?,
        by writer: Entity.Writer
    ) -> Bool {
        guard mutation.entry.operation == .delete else { return !refersToDeleted(mutation, user, over: stored) }
        func referrers(of id: String) -> [String] { notes.filter { $0 != id && $1.document?["ref"] == id }.map(\.key) }
        switch deletionRule {
        case .ignore: return true
        case .restrict: return referrers(of: id).isEmpty
        case .setNull:
            for other in referrers(of: id) {
                write(other, notes[other]?.document?.merging(["ref": "null"]) { $1 }, by: writer)
            }
            return true
        case .cascade:
            var deleted = [id]
            var next = 0
            while next < deleted.count {
                deleted += referrers(of: deleted[next]).filter { !deleted.contains($0) }
                next += 1
            }
            for other in deleted.dropFirst() { write(other, nil, by: writer) }
            return true
        }
    }

    /// Creates a note. The gateway generates its id; a placeholder is used until the gateway returns the id.
    private mutating func create(_ mutation: Accepted, _ writer: Entity.Writer, of user: inout User) {
        let id = Self.name(of: mutation)
        mutation.serverID = id
        mutation.version = 1
        notes[id] = Entity(version: 1, document: document(mutation, user, over: nil), writer: writer, runBase: 0)
        feed.append(id)
    }

    /// A placeholder for the id that a create will receive.
    static func name(of mutation: Accepted) -> String { #""made by \#(mutation.entry.id.lowercased)""# }

    /// Replaces a placeholder with the id.
    mutating func rename(_ name: String, to id: String) {
        if let note = notes.removeValue(forKey: name) { notes[id] = note }
        for (key, note) in notes { notes[key]?.document = note.document?.mapValues { $0 == name ? id : $0 } }
        feed = feed.map { $0 == name ? id : $0 }
        for user in users.keys {
            for (key, mapping) in users[user]?.mappings ?? [:] where mapping.serverID == name {
                users[user]?.mappings[key]?.serverID = id
            }
            for mutation in users[user]?.lane ?? [] where mutation.serverID == name { mutation.serverID = id }
        }
    }

    private mutating func write(_ id: String, _ document: [String: String]?, by writer: Entity.Writer) {
        guard var note = notes[id] else { return }
        if note.writer != writer { note.runBase = note.version }
        note.writer = writer
        note.version += 1
        note.document = document
        notes[id] = note
        feed.removeAll { $0 == id }
        feed.append(id)
    }

    /// The document after a mutation; nil for a deletion.
    private func document(_ mutation: Accepted, _ user: User, over stored: [String: String]?) -> [String: String]? {
        guard mutation.entry.operation != .delete else { return nil }
        var document = mutation.entry.operation == .update ? stored ?? [:] : [:]
        for (name, value) in mutation.payload ?? [] {
            let text = permanent(value, of: mutation, user)
            document[name] = mutation.entry.operation == .update && text == "null" ? nil : text
        }
        return document
    }

    /// JSON text of a value with server ids in place.
    func permanent(_ value: RuleEntry.Value, of mutation: Accepted, _ user: User) -> String {
        switch value {
        case .text(let text): return text
        case .id(let id):
            let text = #""\#(id.lowercased)""#
            let entry = mutation.entry
            // a create that was sent to the conflicting entity, and now is a create again, is sent in its original form
            let isSentAsCreate = entry.operation == .create && entry.type.isForwarded && !mutation.overrides
            if id == entry.local, !isSentAsCreate, let own = mutation.serverID { return own }
            if id == entry.local, entry.operation == .create { return text }
            let type = id == entry.local ? entry.type : mutation.targets[id]
            return type.flatMap { user.mappings[ClientKey(id: id, type: $0)]?.serverID } ?? text
        }
    }
}

extension RuleModel.Entity {
    /// Whether a writer that saw a version may write: no other writer wrote since, and the version existed.
    func accepts(_ base: Int64?, from other: Writer) -> Bool {
        guard let base else { return true }
        return base == version || (other == writer && base >= runBase && base < version)
    }
}
