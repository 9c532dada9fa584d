import ArgumentParser
import Foundation
import JSONText

/// Reads a UUID off the command line, in either case.
func uuidArgument(_ text: String) throws -> UUID {
    guard let id = UUID(parsing: text) else {
        throw ValidationError("\"\(text)\" is not a UUID such as 0192f0c1-2345-7abc-8def-0123456789ab.")
    }
    return id
}
