import Synchronization

extension Atomic where Value == UInt64 {
    /// Replaces the floating-point number whose bits are stored here.
    ///
    /// The new value is the result of `change`. Compared by bits, so a NaN in the cell does not make the exchange fail
    /// permanently.
    func update(_ change: (Double) -> Double) {
        var current = load(ordering: .relaxed)
        while true {
            let wanted = change(Double(bitPattern: current)).bitPattern
            let (exchanged, original) = weakCompareExchange(expected: current, desired: wanted, ordering: .relaxed)
            if exchanged { return }
            current = original
        }
    }
}
