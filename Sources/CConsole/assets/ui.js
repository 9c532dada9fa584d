// Exports everything from which pages are built.
export * from './api.js'
export * from './dom.js'
export * from './forms.js'
export * from './jsonview.js'
export * from './parts.js'
