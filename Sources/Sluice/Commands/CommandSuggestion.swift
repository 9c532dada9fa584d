import ArgumentParser
import SyncModel

/// Finds the subcommand that an unknown word probably means.
enum CommandSuggestion {
    /// The command up to the corrected word, such as `sluice users list`; nil if each word names a subcommand, or none
    /// is close.
    static func of(_ arguments: [String]) -> String? {
        var command: any ParsableCommand.Type = SluiceCommand.self
        var path = ["sluice"]
        for argument in arguments {
            let subcommands: [any ParsableCommand.Type] = command.configuration.subcommands
            if subcommands.isEmpty || argument.hasPrefix("-") { return nil }
            var next: (any ParsableCommand.Type)?
            var known: [String] = []
            for subcommand in subcommands {
                let names = names(of: subcommand)
                if names.contains(argument) { next = subcommand }
                known += names
            }
            if let next {
                command = next
                path.append(argument)
                continue
            }
            guard let meant = NearestName.of(argument, among: known) else { return nil }
            return (path + [meant]).joined(separator: " ")
        }
        return nil
    }

    private static func names(of command: any ParsableCommand.Type) -> [String] {
        let configuration = command.configuration
        return (configuration.commandName.map { [$0] } ?? []) + configuration.aliases
    }
}
