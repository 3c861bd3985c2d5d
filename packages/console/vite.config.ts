import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  // Relative, because the server may be behind a path prefix that is only known when it runs.
  base: './',
  plugins: [react()],
  resolve: { conditions: ['@keyhook/source', 'module', 'browser', 'development|production'] },
  // An inline font or image would need `data:` in the Content-Security-Policy.
  build: { assetsInlineLimit: 0, target: 'es2023', modulePreload: { polyfill: false }, chunkSizeWarningLimit: 400 },
})
