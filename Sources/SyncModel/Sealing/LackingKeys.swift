/// Collects the users whose keys are not in memory, of many values.
///
/// One statement then fetches them all.
public struct LackingKeys {
    private var unknown: Set<LaneKey> = []
    private var missing: Set<LaneKey> = []

    public init() {}

    /// Records the keys that a value lacks, so that the next one can be read.
    ///
    /// - Returns: nil where keys are lacking.
    /// - Throws: what `body` throws for other reasons.
    public mutating func collect<Value, Failure: Error>(
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value? {
        do throws(Failure) {
            return try body()
        } catch {
            switch error as? SealError {
            case .unknownUserKeys(let users): unknown.formUnion(users)
            case .noUserKeys(let users): missing.formUnion(users)
            default: throw error
            }
        }
        return nil
    }

    /// - Throws: ``SealError/unknownUserKeys(_:)``, ``SealError/noUserKeys(_:)`` where anything was lacking.
    public func check() throws(SealError) {
        if !unknown.isEmpty { throw .unknownUserKeys(unknown) }
        if !missing.isEmpty { throw .noUserKeys(missing) }
    }
}
