package import Foundation
import Postgres
package import SyncModel

/// Seals and opens the columns of one lane's mutations and refusals.
package struct LaneSeal: Sendable {
    package let seal: Seal
    package let user: UUID

    package init(seal: Seal, user: UUID) {
        self.seal = seal
        self.user = user
    }

    package func seal(json plain: [UInt8]?, _ column: SealedPlace.Column, of id: UUID) throws(SealError) -> [UInt8]? {
        try seal.seal(json: plain, as: .mutation(column, user: user, id: id))
    }

    package func seal(text plain: String?, _ column: SealedPlace.Column, of id: UUID) throws(SealError) -> String? {
        try seal.seal(text: plain, as: .mutation(column, user: user, id: id))
    }

    /// Nil also where the value cannot be opened.
    ///
    /// `unreadable` then gets its member's name.
    package func read(
        json stored: [UInt8]?,
        _ column: SealedPlace.Column,
        of id: UUID,
        _ unreadable: inout [String]
    ) throws(SealError) -> [UInt8]? {
        try seal.read(json: stored, as: .mutation(column, user: user, id: id), &unreadable)
    }

    /// Nil also where the value cannot be opened.
    ///
    /// `unreadable` then gets its member's name.
    package func read(
        text stored: String?,
        _ column: SealedPlace.Column,
        of id: UUID,
        _ unreadable: inout [String]
    ) throws(SealError) -> String? {
        try seal.read(text: stored, as: .mutation(column, user: user, id: id), &unreadable)
    }
}
