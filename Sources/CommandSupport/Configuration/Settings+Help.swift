extension Settings {
    /// The table of all settings, for help texts.
    package static var help: String {
        Setting.all.map { setting in
            let name = setting.variable + (setting.isSecret ? " (or …_FILE)" : "")
            let fallback = setting.fallbackHint ?? setting.fallback ?? "none"
            return """
                  \(name)
                      \(setting.meaning)
                      \(setting.form.typeName); default: \(fallback)
                """
        }
        .joined(separator: "\n")
    }
}
