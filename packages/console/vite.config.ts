import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

const server = process.env.KEYHOOK_URL ?? 'http://127.0.0.1:8080'
const paths = [
  '/api',
  '/platform',
  '/operator',
  '/console/session',
  '/console/token',
  '/console/sign-in',
  '/console/sign-out',
]

export default defineConfig(({ command }) => ({
  // Relative, because the server may be behind a path prefix that is only known when it runs.
  base: command === 'build' ? './' : '/console/',
  plugins: [react()],
  resolve: { conditions: ['@keyhook/source', 'module', 'browser', 'development|production'] },
  // An inline font or image would need `data:` in the Content-Security-Policy.
  build: { assetsInlineLimit: 0, target: 'es2023', modulePreload: { polyfill: false }, chunkSizeWarningLimit: 400 },
  server: { proxy: Object.fromEntries(paths.map((path) => [path, server])) },
}))
